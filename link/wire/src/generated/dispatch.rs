//! Which message a frame holds: every kind of one direction as one enum.
//! A kind that is not in the table is an error that names it.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

use super::*;
use crate::{Class, Decode, DecodeError, Key, Message, Object, ObjectKind, Recipe, Recipient};

/// What a client says.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// See [`StartActivities`].
    StartActivities(StartActivities),
    /// See [`StopActivities`].
    StopActivities(StopActivities),
    /// See [`TakeActivities`].
    TakeActivities(TakeActivities),
    /// See [`AskActivityClock`].
    AskActivityClock(AskActivityClock),
    /// See [`CreateArray`].
    CreateArray(CreateArray),
    /// See [`DestroyArray`].
    DestroyArray(DestroyArray),
    /// See [`TakeLevel`].
    TakeLevel(TakeLevel),
    /// See [`OpenCollectives`].
    OpenCollectives(OpenCollectives<'a>),
    /// See [`NewUniqueId`].
    NewUniqueId(NewUniqueId),
    /// See [`InitComm`].
    InitComm(InitComm<'a>),
    /// See [`SplitComm`].
    SplitComm(SplitComm<'a>),
    /// See [`ShrinkComm`].
    ShrinkComm(ShrinkComm<'a>),
    /// See [`CollectiveGroup`].
    CollectiveGroup(CollectiveGroup),
    /// See [`AskComm`].
    AskComm(AskComm),
    /// See [`EndComm`].
    EndComm(EndComm),
    /// See [`AbortComm`].
    AbortComm(AbortComm),
    /// See [`CreateReduction`].
    CreateReduction(CreateReduction<'a>),
    /// See [`DestroyReduction`].
    DestroyReduction(DestroyReduction),
    /// See [`RegisterBuffer`].
    RegisterBuffer(RegisterBuffer),
    /// See [`DeregisterBuffer`].
    DeregisterBuffer(DeregisterBuffer),
    /// See [`PeerPort`].
    PeerPort(PeerPort<'a>),
    /// See [`NewGrowId`].
    NewGrowId(NewGrowId),
    /// See [`GrowComm`].
    GrowComm(GrowComm<'a>),
    /// See [`SuspendComm`].
    SuspendComm(SuspendComm),
    /// See [`ReadCommMemory`].
    ReadCommMemory(ReadCommMemory),
    /// See [`SimulateGroup`].
    SimulateGroup(SimulateGroup),
    /// See [`ReadParameter`].
    ReadParameter(ReadParameter<'a>),
    /// See [`ListParameters`].
    ListParameters(ListParameters),
    /// See [`SynchronizeContext`].
    SynchronizeContext(SynchronizeContext),
    /// See [`SetLimit`].
    SetLimit(SetLimit),
    /// See [`ResetContext`].
    ResetContext(ResetContext),
    /// See [`SetCacheConfig`].
    SetCacheConfig(SetCacheConfig),
    /// See [`CopyToDevice`].
    CopyToDevice(CopyToDevice<'a>),
    /// See [`CopyFromDevice`].
    CopyFromDevice(CopyFromDevice),
    /// See [`CopyOnDevice`].
    CopyOnDevice(CopyOnDevice),
    /// See [`CopyBoxToDevice`].
    CopyBoxToDevice(CopyBoxToDevice<'a>),
    /// See [`CopyBoxFromDevice`].
    CopyBoxFromDevice(CopyBoxFromDevice),
    /// See [`CopyBoxOnDevice`].
    CopyBoxOnDevice(CopyBoxOnDevice),
    /// See [`Fill`].
    Fill(Fill),
    /// See [`CopyLate`].
    CopyLate(CopyLate),
    /// See [`LateBytes`].
    LateBytes(LateBytes<'a>),
    /// See [`CopyBulkToDevice`].
    CopyBulkToDevice(CopyBulkToDevice),
    /// See [`Chunk`].
    Chunk(Chunk<'a>),
    /// See [`CreateEvent`].
    CreateEvent(CreateEvent),
    /// See [`RecordEvent`].
    RecordEvent(RecordEvent),
    /// See [`SynchronizeEvent`].
    SynchronizeEvent(SynchronizeEvent),
    /// See [`QueryEvent`].
    QueryEvent(QueryEvent),
    /// See [`ElapsedTime`].
    ElapsedTime(ElapsedTime),
    /// See [`DestroyEvent`].
    DestroyEvent(DestroyEvent),
    /// See [`CreateGraph`].
    CreateGraph(CreateGraph),
    /// See [`AddGraphKernel`].
    AddGraphKernel(AddGraphKernel<'a>),
    /// See [`AddGraphCopy`].
    AddGraphCopy(AddGraphCopy),
    /// See [`AddGraphFill`].
    AddGraphFill(AddGraphFill),
    /// See [`AddGraphEmpty`].
    AddGraphEmpty(AddGraphEmpty),
    /// See [`InstantiateGraph`].
    InstantiateGraph(InstantiateGraph),
    /// See [`LaunchGraph`].
    LaunchGraph(LaunchGraph),
    /// See [`UploadGraph`].
    UploadGraph(UploadGraph),
    /// See [`SetGraphKernel`].
    SetGraphKernel(SetGraphKernel<'a>),
    /// See [`SetGraphCopy`].
    SetGraphCopy(SetGraphCopy),
    /// See [`SetGraphFill`].
    SetGraphFill(SetGraphFill),
    /// See [`EnableGraphNode`].
    EnableGraphNode(EnableGraphNode),
    /// See [`UpdateGraph`].
    UpdateGraph(UpdateGraph),
    /// See [`DestroyGraph`].
    DestroyGraph(DestroyGraph),
    /// See [`AddGraphWords`].
    AddGraphWords(AddGraphWords),
    /// See [`SetGraphWords`].
    SetGraphWords(SetGraphWords),
    /// See [`CreateGraphCondition`].
    CreateGraphCondition(CreateGraphCondition),
    /// See [`AddGraphConditional`].
    AddGraphConditional(AddGraphConditional),
    /// See [`Launch`].
    Launch(Launch<'a>),
    /// See [`HostFunction`].
    HostFunction(HostFunction),
    /// See [`HostFunctionDone`].
    HostFunctionDone(HostFunctionDone),
    /// See [`MaxActiveBlocks`].
    MaxActiveBlocks(MaxActiveBlocks),
    /// See [`AvailableShared`].
    AvailableShared(AvailableShared),
    /// See [`ClusterOccupancy`].
    ClusterOccupancy(ClusterOccupancy<'a>),
    /// See [`LibraryPart`].
    LibraryPart(LibraryPart<'a>),
    /// See [`UnloadLibrary`].
    UnloadLibrary(UnloadLibrary),
    /// See [`ListKernels`].
    ListKernels(ListKernels),
    /// See [`FindKernel`].
    FindKernel(FindKernel<'a>),
    /// See [`FindGlobal`].
    FindGlobal(FindGlobal<'a>),
    /// See [`SetKernelAttribute`].
    SetKernelAttribute(SetKernelAttribute),
    /// See [`LoadLibrary`].
    LoadLibrary(LoadLibrary<'a>),
    /// See [`LinkLibrary`].
    LinkLibrary(LinkLibrary<'a>),
    /// See [`ReadLinked`].
    ReadLinked(ReadLinked),
    /// See [`CreateBlock`].
    CreateBlock(CreateBlock),
    /// See [`ReleaseBlock`].
    ReleaseBlock(ReleaseBlock),
    /// See [`MapBlock`].
    MapBlock(MapBlock),
    /// See [`SetAccess`].
    SetAccess(SetAccess),
    /// See [`UnmapRange`].
    UnmapRange(UnmapRange),
    /// See [`MemoryInfo`].
    MemoryInfo(MemoryInfo),
    /// See [`Migrate`].
    Migrate(Migrate<'a>),
    /// See [`CancelMigrate`].
    CancelMigrate(CancelMigrate),
    /// See [`MirrorMemory`].
    MirrorMemory(MirrorMemory),
    /// See [`UnmirrorMemory`].
    UnmirrorMemory(UnmirrorMemory),
    /// See [`WriteMirror`].
    WriteMirror(WriteMirror<'a>),
    /// See [`Export`].
    Export(Export<'a>),
    /// See [`Withdraw`].
    Withdraw(Withdraw),
    /// See [`ImportBlock`].
    ImportBlock(ImportBlock<'a>),
    /// See [`CreateSignals`].
    CreateSignals(CreateSignals),
    /// See [`ImportSignals`].
    ImportSignals(ImportSignals<'a>),
    /// See [`DropSignals`].
    DropSignals(DropSignals),
    /// See [`RaiseSignal`].
    RaiseSignal(RaiseSignal),
    /// See [`AwaitSignal`].
    AwaitSignal(AwaitSignal),
    /// See [`RecordSignal`].
    RecordSignal(RecordSignal),
    /// See [`ReadSignals`].
    ReadSignals(ReadSignals),
    /// See [`AskPeer`].
    AskPeer(AskPeer),
    /// See [`ConnectPeer`].
    ConnectPeer(ConnectPeer<'a>),
    /// See [`DropPeer`].
    DropPeer(DropPeer),
    /// See [`SendTo`].
    SendTo(SendTo),
    /// See [`ReceiveFrom`].
    ReceiveFrom(ReceiveFrom),
    /// See [`PeerHello`].
    PeerHello(PeerHello),
    /// See [`PeerTicket`].
    PeerTicket(PeerTicket),
    /// See [`PeerJoin`].
    PeerJoin(PeerJoin),
    /// See [`PeerReady`].
    PeerReady(PeerReady),
    /// See [`PeerDone`].
    PeerDone(PeerDone),
    /// See [`RaiseNow`].
    RaiseNow(RaiseNow),
    /// See [`Hello`].
    Hello(Hello<'a>),
    /// See [`Authenticate`].
    Authenticate(Authenticate<'a>),
    /// See [`ListGpus`].
    ListGpus(ListGpus),
    /// See [`ListSessions`].
    ListSessions(ListSessions),
    /// See [`Attach`].
    Attach(Attach<'a>),
    /// See [`Join`].
    Join(Join<'a>),
    /// See [`UseRings`].
    UseRings(UseRings),
    /// See [`Continue`].
    Continue(Continue),
    /// See [`Acknowledge`].
    Acknowledge(Acknowledge),
    /// See [`Goodbye`].
    Goodbye(Goodbye),
    /// See [`EndSession`].
    EndSession(EndSession<'a>),
    /// See [`Salt`].
    Salt(Salt),
    /// See [`Heartbeat`].
    Heartbeat(Heartbeat),
    /// See [`Identify`].
    Identify(Identify<'a>),
    /// See [`ShareMemory`].
    ShareMemory(ShareMemory),
    /// See [`MapShared`].
    MapShared(MapShared),
    /// See [`UnmapShared`].
    UnmapShared(UnmapShared),
    /// See [`ShareFile`].
    ShareFile(ShareFile),
    /// See [`CreateStream`].
    CreateStream(CreateStream),
    /// See [`DestroyStream`].
    DestroyStream(DestroyStream),
    /// See [`WaitEvent`].
    WaitEvent(WaitEvent),
    /// See [`SynchronizeStream`].
    SynchronizeStream(SynchronizeStream),
    /// See [`QueryStream`].
    QueryStream(QueryStream),
    /// See [`CreateApartStream`].
    CreateApartStream(CreateApartStream),
    /// See [`MemoryOperations`].
    MemoryOperations(MemoryOperations),
    /// See [`ReadTelemetry`].
    ReadTelemetry(ReadTelemetry<'a>),
    /// See [`EncodeTensorMap`].
    EncodeTensorMap(EncodeTensorMap),
    /// See [`CreateTexture`].
    CreateTexture(CreateTexture),
    /// See [`DestroyTexture`].
    DestroyTexture(DestroyTexture),
    /// See [`CreateSurface`].
    CreateSurface(CreateSurface),
    /// See [`DestroySurface`].
    DestroySurface(DestroySurface),
    /// See [`SetTextureReference`].
    SetTextureReference(SetTextureReference<'a>),
}

impl<'a> Request<'a> {
    /// Decodes a payload by its frame's kind.
    ///
    /// # Errors
    /// [`DecodeError`] when the kind is unknown or the payload is not exactly one such message.
    pub fn decode(kind: u16, payload: &'a [u8]) -> Result<Self, DecodeError> {
        match kind {
            StartActivities::KIND => StartActivities::decode(payload).map(Self::StartActivities),
            StopActivities::KIND => StopActivities::decode(payload).map(Self::StopActivities),
            TakeActivities::KIND => TakeActivities::decode(payload).map(Self::TakeActivities),
            AskActivityClock::KIND => AskActivityClock::decode(payload).map(Self::AskActivityClock),
            CreateArray::KIND => CreateArray::decode(payload).map(Self::CreateArray),
            DestroyArray::KIND => DestroyArray::decode(payload).map(Self::DestroyArray),
            TakeLevel::KIND => TakeLevel::decode(payload).map(Self::TakeLevel),
            OpenCollectives::KIND => OpenCollectives::decode(payload).map(Self::OpenCollectives),
            NewUniqueId::KIND => NewUniqueId::decode(payload).map(Self::NewUniqueId),
            InitComm::KIND => InitComm::decode(payload).map(Self::InitComm),
            SplitComm::KIND => SplitComm::decode(payload).map(Self::SplitComm),
            ShrinkComm::KIND => ShrinkComm::decode(payload).map(Self::ShrinkComm),
            CollectiveGroup::KIND => CollectiveGroup::decode(payload).map(Self::CollectiveGroup),
            AskComm::KIND => AskComm::decode(payload).map(Self::AskComm),
            EndComm::KIND => EndComm::decode(payload).map(Self::EndComm),
            AbortComm::KIND => AbortComm::decode(payload).map(Self::AbortComm),
            CreateReduction::KIND => CreateReduction::decode(payload).map(Self::CreateReduction),
            DestroyReduction::KIND => DestroyReduction::decode(payload).map(Self::DestroyReduction),
            RegisterBuffer::KIND => RegisterBuffer::decode(payload).map(Self::RegisterBuffer),
            DeregisterBuffer::KIND => DeregisterBuffer::decode(payload).map(Self::DeregisterBuffer),
            PeerPort::KIND => PeerPort::decode(payload).map(Self::PeerPort),
            NewGrowId::KIND => NewGrowId::decode(payload).map(Self::NewGrowId),
            GrowComm::KIND => GrowComm::decode(payload).map(Self::GrowComm),
            SuspendComm::KIND => SuspendComm::decode(payload).map(Self::SuspendComm),
            ReadCommMemory::KIND => ReadCommMemory::decode(payload).map(Self::ReadCommMemory),
            SimulateGroup::KIND => SimulateGroup::decode(payload).map(Self::SimulateGroup),
            ReadParameter::KIND => ReadParameter::decode(payload).map(Self::ReadParameter),
            ListParameters::KIND => ListParameters::decode(payload).map(Self::ListParameters),
            SynchronizeContext::KIND => SynchronizeContext::decode(payload).map(Self::SynchronizeContext),
            SetLimit::KIND => SetLimit::decode(payload).map(Self::SetLimit),
            ResetContext::KIND => ResetContext::decode(payload).map(Self::ResetContext),
            SetCacheConfig::KIND => SetCacheConfig::decode(payload).map(Self::SetCacheConfig),
            CopyToDevice::KIND => CopyToDevice::decode(payload).map(Self::CopyToDevice),
            CopyFromDevice::KIND => CopyFromDevice::decode(payload).map(Self::CopyFromDevice),
            CopyOnDevice::KIND => CopyOnDevice::decode(payload).map(Self::CopyOnDevice),
            CopyBoxToDevice::KIND => CopyBoxToDevice::decode(payload).map(Self::CopyBoxToDevice),
            CopyBoxFromDevice::KIND => CopyBoxFromDevice::decode(payload).map(Self::CopyBoxFromDevice),
            CopyBoxOnDevice::KIND => CopyBoxOnDevice::decode(payload).map(Self::CopyBoxOnDevice),
            Fill::KIND => Fill::decode(payload).map(Self::Fill),
            CopyLate::KIND => CopyLate::decode(payload).map(Self::CopyLate),
            LateBytes::KIND => LateBytes::decode(payload).map(Self::LateBytes),
            CopyBulkToDevice::KIND => CopyBulkToDevice::decode(payload).map(Self::CopyBulkToDevice),
            Chunk::KIND => Chunk::decode(payload).map(Self::Chunk),
            CreateEvent::KIND => CreateEvent::decode(payload).map(Self::CreateEvent),
            RecordEvent::KIND => RecordEvent::decode(payload).map(Self::RecordEvent),
            SynchronizeEvent::KIND => SynchronizeEvent::decode(payload).map(Self::SynchronizeEvent),
            QueryEvent::KIND => QueryEvent::decode(payload).map(Self::QueryEvent),
            ElapsedTime::KIND => ElapsedTime::decode(payload).map(Self::ElapsedTime),
            DestroyEvent::KIND => DestroyEvent::decode(payload).map(Self::DestroyEvent),
            CreateGraph::KIND => CreateGraph::decode(payload).map(Self::CreateGraph),
            AddGraphKernel::KIND => AddGraphKernel::decode(payload).map(Self::AddGraphKernel),
            AddGraphCopy::KIND => AddGraphCopy::decode(payload).map(Self::AddGraphCopy),
            AddGraphFill::KIND => AddGraphFill::decode(payload).map(Self::AddGraphFill),
            AddGraphEmpty::KIND => AddGraphEmpty::decode(payload).map(Self::AddGraphEmpty),
            InstantiateGraph::KIND => InstantiateGraph::decode(payload).map(Self::InstantiateGraph),
            LaunchGraph::KIND => LaunchGraph::decode(payload).map(Self::LaunchGraph),
            UploadGraph::KIND => UploadGraph::decode(payload).map(Self::UploadGraph),
            SetGraphKernel::KIND => SetGraphKernel::decode(payload).map(Self::SetGraphKernel),
            SetGraphCopy::KIND => SetGraphCopy::decode(payload).map(Self::SetGraphCopy),
            SetGraphFill::KIND => SetGraphFill::decode(payload).map(Self::SetGraphFill),
            EnableGraphNode::KIND => EnableGraphNode::decode(payload).map(Self::EnableGraphNode),
            UpdateGraph::KIND => UpdateGraph::decode(payload).map(Self::UpdateGraph),
            DestroyGraph::KIND => DestroyGraph::decode(payload).map(Self::DestroyGraph),
            AddGraphWords::KIND => AddGraphWords::decode(payload).map(Self::AddGraphWords),
            SetGraphWords::KIND => SetGraphWords::decode(payload).map(Self::SetGraphWords),
            CreateGraphCondition::KIND => CreateGraphCondition::decode(payload).map(Self::CreateGraphCondition),
            AddGraphConditional::KIND => AddGraphConditional::decode(payload).map(Self::AddGraphConditional),
            Launch::KIND => Launch::decode(payload).map(Self::Launch),
            HostFunction::KIND => HostFunction::decode(payload).map(Self::HostFunction),
            HostFunctionDone::KIND => HostFunctionDone::decode(payload).map(Self::HostFunctionDone),
            MaxActiveBlocks::KIND => MaxActiveBlocks::decode(payload).map(Self::MaxActiveBlocks),
            AvailableShared::KIND => AvailableShared::decode(payload).map(Self::AvailableShared),
            ClusterOccupancy::KIND => ClusterOccupancy::decode(payload).map(Self::ClusterOccupancy),
            LibraryPart::KIND => LibraryPart::decode(payload).map(Self::LibraryPart),
            UnloadLibrary::KIND => UnloadLibrary::decode(payload).map(Self::UnloadLibrary),
            ListKernels::KIND => ListKernels::decode(payload).map(Self::ListKernels),
            FindKernel::KIND => FindKernel::decode(payload).map(Self::FindKernel),
            FindGlobal::KIND => FindGlobal::decode(payload).map(Self::FindGlobal),
            SetKernelAttribute::KIND => SetKernelAttribute::decode(payload).map(Self::SetKernelAttribute),
            LoadLibrary::KIND => LoadLibrary::decode(payload).map(Self::LoadLibrary),
            LinkLibrary::KIND => LinkLibrary::decode(payload).map(Self::LinkLibrary),
            ReadLinked::KIND => ReadLinked::decode(payload).map(Self::ReadLinked),
            CreateBlock::KIND => CreateBlock::decode(payload).map(Self::CreateBlock),
            ReleaseBlock::KIND => ReleaseBlock::decode(payload).map(Self::ReleaseBlock),
            MapBlock::KIND => MapBlock::decode(payload).map(Self::MapBlock),
            SetAccess::KIND => SetAccess::decode(payload).map(Self::SetAccess),
            UnmapRange::KIND => UnmapRange::decode(payload).map(Self::UnmapRange),
            MemoryInfo::KIND => MemoryInfo::decode(payload).map(Self::MemoryInfo),
            Migrate::KIND => Migrate::decode(payload).map(Self::Migrate),
            CancelMigrate::KIND => CancelMigrate::decode(payload).map(Self::CancelMigrate),
            MirrorMemory::KIND => MirrorMemory::decode(payload).map(Self::MirrorMemory),
            UnmirrorMemory::KIND => UnmirrorMemory::decode(payload).map(Self::UnmirrorMemory),
            WriteMirror::KIND => WriteMirror::decode(payload).map(Self::WriteMirror),
            Export::KIND => Export::decode(payload).map(Self::Export),
            Withdraw::KIND => Withdraw::decode(payload).map(Self::Withdraw),
            ImportBlock::KIND => ImportBlock::decode(payload).map(Self::ImportBlock),
            CreateSignals::KIND => CreateSignals::decode(payload).map(Self::CreateSignals),
            ImportSignals::KIND => ImportSignals::decode(payload).map(Self::ImportSignals),
            DropSignals::KIND => DropSignals::decode(payload).map(Self::DropSignals),
            RaiseSignal::KIND => RaiseSignal::decode(payload).map(Self::RaiseSignal),
            AwaitSignal::KIND => AwaitSignal::decode(payload).map(Self::AwaitSignal),
            RecordSignal::KIND => RecordSignal::decode(payload).map(Self::RecordSignal),
            ReadSignals::KIND => ReadSignals::decode(payload).map(Self::ReadSignals),
            AskPeer::KIND => AskPeer::decode(payload).map(Self::AskPeer),
            ConnectPeer::KIND => ConnectPeer::decode(payload).map(Self::ConnectPeer),
            DropPeer::KIND => DropPeer::decode(payload).map(Self::DropPeer),
            SendTo::KIND => SendTo::decode(payload).map(Self::SendTo),
            ReceiveFrom::KIND => ReceiveFrom::decode(payload).map(Self::ReceiveFrom),
            PeerHello::KIND => PeerHello::decode(payload).map(Self::PeerHello),
            PeerTicket::KIND => PeerTicket::decode(payload).map(Self::PeerTicket),
            PeerJoin::KIND => PeerJoin::decode(payload).map(Self::PeerJoin),
            PeerReady::KIND => PeerReady::decode(payload).map(Self::PeerReady),
            PeerDone::KIND => PeerDone::decode(payload).map(Self::PeerDone),
            RaiseNow::KIND => RaiseNow::decode(payload).map(Self::RaiseNow),
            Hello::KIND => Hello::decode(payload).map(Self::Hello),
            Authenticate::KIND => Authenticate::decode(payload).map(Self::Authenticate),
            ListGpus::KIND => ListGpus::decode(payload).map(Self::ListGpus),
            ListSessions::KIND => ListSessions::decode(payload).map(Self::ListSessions),
            Attach::KIND => Attach::decode(payload).map(Self::Attach),
            Join::KIND => Join::decode(payload).map(Self::Join),
            UseRings::KIND => UseRings::decode(payload).map(Self::UseRings),
            Continue::KIND => Continue::decode(payload).map(Self::Continue),
            Acknowledge::KIND => Acknowledge::decode(payload).map(Self::Acknowledge),
            Goodbye::KIND => Goodbye::decode(payload).map(Self::Goodbye),
            EndSession::KIND => EndSession::decode(payload).map(Self::EndSession),
            Salt::KIND => Salt::decode(payload).map(Self::Salt),
            Heartbeat::KIND => Heartbeat::decode(payload).map(Self::Heartbeat),
            Identify::KIND => Identify::decode(payload).map(Self::Identify),
            ShareMemory::KIND => ShareMemory::decode(payload).map(Self::ShareMemory),
            MapShared::KIND => MapShared::decode(payload).map(Self::MapShared),
            UnmapShared::KIND => UnmapShared::decode(payload).map(Self::UnmapShared),
            ShareFile::KIND => ShareFile::decode(payload).map(Self::ShareFile),
            CreateStream::KIND => CreateStream::decode(payload).map(Self::CreateStream),
            DestroyStream::KIND => DestroyStream::decode(payload).map(Self::DestroyStream),
            WaitEvent::KIND => WaitEvent::decode(payload).map(Self::WaitEvent),
            SynchronizeStream::KIND => SynchronizeStream::decode(payload).map(Self::SynchronizeStream),
            QueryStream::KIND => QueryStream::decode(payload).map(Self::QueryStream),
            CreateApartStream::KIND => CreateApartStream::decode(payload).map(Self::CreateApartStream),
            MemoryOperations::KIND => MemoryOperations::decode(payload).map(Self::MemoryOperations),
            ReadTelemetry::KIND => ReadTelemetry::decode(payload).map(Self::ReadTelemetry),
            EncodeTensorMap::KIND => EncodeTensorMap::decode(payload).map(Self::EncodeTensorMap),
            CreateTexture::KIND => CreateTexture::decode(payload).map(Self::CreateTexture),
            DestroyTexture::KIND => DestroyTexture::decode(payload).map(Self::DestroyTexture),
            CreateSurface::KIND => CreateSurface::decode(payload).map(Self::CreateSurface),
            DestroySurface::KIND => DestroySurface::decode(payload).map(Self::DestroySurface),
            SetTextureReference::KIND => SetTextureReference::decode(payload).map(Self::SetTextureReference),
            _ => Err(DecodeError::unknown_kind(kind)),
        }
    }

    /// The message's name in the table.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::StartActivities(_) => StartActivities::NAME,
            Self::StopActivities(_) => StopActivities::NAME,
            Self::TakeActivities(_) => TakeActivities::NAME,
            Self::AskActivityClock(_) => AskActivityClock::NAME,
            Self::CreateArray(_) => CreateArray::NAME,
            Self::DestroyArray(_) => DestroyArray::NAME,
            Self::TakeLevel(_) => TakeLevel::NAME,
            Self::OpenCollectives(_) => OpenCollectives::NAME,
            Self::NewUniqueId(_) => NewUniqueId::NAME,
            Self::InitComm(_) => InitComm::NAME,
            Self::SplitComm(_) => SplitComm::NAME,
            Self::ShrinkComm(_) => ShrinkComm::NAME,
            Self::CollectiveGroup(_) => CollectiveGroup::NAME,
            Self::AskComm(_) => AskComm::NAME,
            Self::EndComm(_) => EndComm::NAME,
            Self::AbortComm(_) => AbortComm::NAME,
            Self::CreateReduction(_) => CreateReduction::NAME,
            Self::DestroyReduction(_) => DestroyReduction::NAME,
            Self::RegisterBuffer(_) => RegisterBuffer::NAME,
            Self::DeregisterBuffer(_) => DeregisterBuffer::NAME,
            Self::PeerPort(_) => PeerPort::NAME,
            Self::NewGrowId(_) => NewGrowId::NAME,
            Self::GrowComm(_) => GrowComm::NAME,
            Self::SuspendComm(_) => SuspendComm::NAME,
            Self::ReadCommMemory(_) => ReadCommMemory::NAME,
            Self::SimulateGroup(_) => SimulateGroup::NAME,
            Self::ReadParameter(_) => ReadParameter::NAME,
            Self::ListParameters(_) => ListParameters::NAME,
            Self::SynchronizeContext(_) => SynchronizeContext::NAME,
            Self::SetLimit(_) => SetLimit::NAME,
            Self::ResetContext(_) => ResetContext::NAME,
            Self::SetCacheConfig(_) => SetCacheConfig::NAME,
            Self::CopyToDevice(_) => CopyToDevice::NAME,
            Self::CopyFromDevice(_) => CopyFromDevice::NAME,
            Self::CopyOnDevice(_) => CopyOnDevice::NAME,
            Self::CopyBoxToDevice(_) => CopyBoxToDevice::NAME,
            Self::CopyBoxFromDevice(_) => CopyBoxFromDevice::NAME,
            Self::CopyBoxOnDevice(_) => CopyBoxOnDevice::NAME,
            Self::Fill(_) => Fill::NAME,
            Self::CopyLate(_) => CopyLate::NAME,
            Self::LateBytes(_) => LateBytes::NAME,
            Self::CopyBulkToDevice(_) => CopyBulkToDevice::NAME,
            Self::Chunk(_) => Chunk::NAME,
            Self::CreateEvent(_) => CreateEvent::NAME,
            Self::RecordEvent(_) => RecordEvent::NAME,
            Self::SynchronizeEvent(_) => SynchronizeEvent::NAME,
            Self::QueryEvent(_) => QueryEvent::NAME,
            Self::ElapsedTime(_) => ElapsedTime::NAME,
            Self::DestroyEvent(_) => DestroyEvent::NAME,
            Self::CreateGraph(_) => CreateGraph::NAME,
            Self::AddGraphKernel(_) => AddGraphKernel::NAME,
            Self::AddGraphCopy(_) => AddGraphCopy::NAME,
            Self::AddGraphFill(_) => AddGraphFill::NAME,
            Self::AddGraphEmpty(_) => AddGraphEmpty::NAME,
            Self::InstantiateGraph(_) => InstantiateGraph::NAME,
            Self::LaunchGraph(_) => LaunchGraph::NAME,
            Self::UploadGraph(_) => UploadGraph::NAME,
            Self::SetGraphKernel(_) => SetGraphKernel::NAME,
            Self::SetGraphCopy(_) => SetGraphCopy::NAME,
            Self::SetGraphFill(_) => SetGraphFill::NAME,
            Self::EnableGraphNode(_) => EnableGraphNode::NAME,
            Self::UpdateGraph(_) => UpdateGraph::NAME,
            Self::DestroyGraph(_) => DestroyGraph::NAME,
            Self::AddGraphWords(_) => AddGraphWords::NAME,
            Self::SetGraphWords(_) => SetGraphWords::NAME,
            Self::CreateGraphCondition(_) => CreateGraphCondition::NAME,
            Self::AddGraphConditional(_) => AddGraphConditional::NAME,
            Self::Launch(_) => Launch::NAME,
            Self::HostFunction(_) => HostFunction::NAME,
            Self::HostFunctionDone(_) => HostFunctionDone::NAME,
            Self::MaxActiveBlocks(_) => MaxActiveBlocks::NAME,
            Self::AvailableShared(_) => AvailableShared::NAME,
            Self::ClusterOccupancy(_) => ClusterOccupancy::NAME,
            Self::LibraryPart(_) => LibraryPart::NAME,
            Self::UnloadLibrary(_) => UnloadLibrary::NAME,
            Self::ListKernels(_) => ListKernels::NAME,
            Self::FindKernel(_) => FindKernel::NAME,
            Self::FindGlobal(_) => FindGlobal::NAME,
            Self::SetKernelAttribute(_) => SetKernelAttribute::NAME,
            Self::LoadLibrary(_) => LoadLibrary::NAME,
            Self::LinkLibrary(_) => LinkLibrary::NAME,
            Self::ReadLinked(_) => ReadLinked::NAME,
            Self::CreateBlock(_) => CreateBlock::NAME,
            Self::ReleaseBlock(_) => ReleaseBlock::NAME,
            Self::MapBlock(_) => MapBlock::NAME,
            Self::SetAccess(_) => SetAccess::NAME,
            Self::UnmapRange(_) => UnmapRange::NAME,
            Self::MemoryInfo(_) => MemoryInfo::NAME,
            Self::Migrate(_) => Migrate::NAME,
            Self::CancelMigrate(_) => CancelMigrate::NAME,
            Self::MirrorMemory(_) => MirrorMemory::NAME,
            Self::UnmirrorMemory(_) => UnmirrorMemory::NAME,
            Self::WriteMirror(_) => WriteMirror::NAME,
            Self::Export(_) => Export::NAME,
            Self::Withdraw(_) => Withdraw::NAME,
            Self::ImportBlock(_) => ImportBlock::NAME,
            Self::CreateSignals(_) => CreateSignals::NAME,
            Self::ImportSignals(_) => ImportSignals::NAME,
            Self::DropSignals(_) => DropSignals::NAME,
            Self::RaiseSignal(_) => RaiseSignal::NAME,
            Self::AwaitSignal(_) => AwaitSignal::NAME,
            Self::RecordSignal(_) => RecordSignal::NAME,
            Self::ReadSignals(_) => ReadSignals::NAME,
            Self::AskPeer(_) => AskPeer::NAME,
            Self::ConnectPeer(_) => ConnectPeer::NAME,
            Self::DropPeer(_) => DropPeer::NAME,
            Self::SendTo(_) => SendTo::NAME,
            Self::ReceiveFrom(_) => ReceiveFrom::NAME,
            Self::PeerHello(_) => PeerHello::NAME,
            Self::PeerTicket(_) => PeerTicket::NAME,
            Self::PeerJoin(_) => PeerJoin::NAME,
            Self::PeerReady(_) => PeerReady::NAME,
            Self::PeerDone(_) => PeerDone::NAME,
            Self::RaiseNow(_) => RaiseNow::NAME,
            Self::Hello(_) => Hello::NAME,
            Self::Authenticate(_) => Authenticate::NAME,
            Self::ListGpus(_) => ListGpus::NAME,
            Self::ListSessions(_) => ListSessions::NAME,
            Self::Attach(_) => Attach::NAME,
            Self::Join(_) => Join::NAME,
            Self::UseRings(_) => UseRings::NAME,
            Self::Continue(_) => Continue::NAME,
            Self::Acknowledge(_) => Acknowledge::NAME,
            Self::Goodbye(_) => Goodbye::NAME,
            Self::EndSession(_) => EndSession::NAME,
            Self::Salt(_) => Salt::NAME,
            Self::Heartbeat(_) => Heartbeat::NAME,
            Self::Identify(_) => Identify::NAME,
            Self::ShareMemory(_) => ShareMemory::NAME,
            Self::MapShared(_) => MapShared::NAME,
            Self::UnmapShared(_) => UnmapShared::NAME,
            Self::ShareFile(_) => ShareFile::NAME,
            Self::CreateStream(_) => CreateStream::NAME,
            Self::DestroyStream(_) => DestroyStream::NAME,
            Self::WaitEvent(_) => WaitEvent::NAME,
            Self::SynchronizeStream(_) => SynchronizeStream::NAME,
            Self::QueryStream(_) => QueryStream::NAME,
            Self::CreateApartStream(_) => CreateApartStream::NAME,
            Self::MemoryOperations(_) => MemoryOperations::NAME,
            Self::ReadTelemetry(_) => ReadTelemetry::NAME,
            Self::EncodeTensorMap(_) => EncodeTensorMap::NAME,
            Self::CreateTexture(_) => CreateTexture::NAME,
            Self::DestroyTexture(_) => DestroyTexture::NAME,
            Self::CreateSurface(_) => CreateSurface::NAME,
            Self::DestroySurface(_) => DestroySurface::NAME,
            Self::SetTextureReference(_) => SetTextureReference::NAME,
        }
    }

    /// Whether and how it is answered.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::StartActivities(_) => StartActivities::CLASS,
            Self::StopActivities(_) => StopActivities::CLASS,
            Self::TakeActivities(_) => TakeActivities::CLASS,
            Self::AskActivityClock(_) => AskActivityClock::CLASS,
            Self::CreateArray(_) => CreateArray::CLASS,
            Self::DestroyArray(_) => DestroyArray::CLASS,
            Self::TakeLevel(_) => TakeLevel::CLASS,
            Self::OpenCollectives(_) => OpenCollectives::CLASS,
            Self::NewUniqueId(_) => NewUniqueId::CLASS,
            Self::InitComm(_) => InitComm::CLASS,
            Self::SplitComm(_) => SplitComm::CLASS,
            Self::ShrinkComm(_) => ShrinkComm::CLASS,
            Self::CollectiveGroup(_) => CollectiveGroup::CLASS,
            Self::AskComm(_) => AskComm::CLASS,
            Self::EndComm(_) => EndComm::CLASS,
            Self::AbortComm(_) => AbortComm::CLASS,
            Self::CreateReduction(_) => CreateReduction::CLASS,
            Self::DestroyReduction(_) => DestroyReduction::CLASS,
            Self::RegisterBuffer(_) => RegisterBuffer::CLASS,
            Self::DeregisterBuffer(_) => DeregisterBuffer::CLASS,
            Self::PeerPort(_) => PeerPort::CLASS,
            Self::NewGrowId(_) => NewGrowId::CLASS,
            Self::GrowComm(_) => GrowComm::CLASS,
            Self::SuspendComm(_) => SuspendComm::CLASS,
            Self::ReadCommMemory(_) => ReadCommMemory::CLASS,
            Self::SimulateGroup(_) => SimulateGroup::CLASS,
            Self::ReadParameter(_) => ReadParameter::CLASS,
            Self::ListParameters(_) => ListParameters::CLASS,
            Self::SynchronizeContext(_) => SynchronizeContext::CLASS,
            Self::SetLimit(_) => SetLimit::CLASS,
            Self::ResetContext(_) => ResetContext::CLASS,
            Self::SetCacheConfig(_) => SetCacheConfig::CLASS,
            Self::CopyToDevice(_) => CopyToDevice::CLASS,
            Self::CopyFromDevice(_) => CopyFromDevice::CLASS,
            Self::CopyOnDevice(_) => CopyOnDevice::CLASS,
            Self::CopyBoxToDevice(_) => CopyBoxToDevice::CLASS,
            Self::CopyBoxFromDevice(_) => CopyBoxFromDevice::CLASS,
            Self::CopyBoxOnDevice(_) => CopyBoxOnDevice::CLASS,
            Self::Fill(_) => Fill::CLASS,
            Self::CopyLate(_) => CopyLate::CLASS,
            Self::LateBytes(_) => LateBytes::CLASS,
            Self::CopyBulkToDevice(_) => CopyBulkToDevice::CLASS,
            Self::Chunk(_) => Chunk::CLASS,
            Self::CreateEvent(_) => CreateEvent::CLASS,
            Self::RecordEvent(_) => RecordEvent::CLASS,
            Self::SynchronizeEvent(_) => SynchronizeEvent::CLASS,
            Self::QueryEvent(_) => QueryEvent::CLASS,
            Self::ElapsedTime(_) => ElapsedTime::CLASS,
            Self::DestroyEvent(_) => DestroyEvent::CLASS,
            Self::CreateGraph(_) => CreateGraph::CLASS,
            Self::AddGraphKernel(_) => AddGraphKernel::CLASS,
            Self::AddGraphCopy(_) => AddGraphCopy::CLASS,
            Self::AddGraphFill(_) => AddGraphFill::CLASS,
            Self::AddGraphEmpty(_) => AddGraphEmpty::CLASS,
            Self::InstantiateGraph(_) => InstantiateGraph::CLASS,
            Self::LaunchGraph(_) => LaunchGraph::CLASS,
            Self::UploadGraph(_) => UploadGraph::CLASS,
            Self::SetGraphKernel(_) => SetGraphKernel::CLASS,
            Self::SetGraphCopy(_) => SetGraphCopy::CLASS,
            Self::SetGraphFill(_) => SetGraphFill::CLASS,
            Self::EnableGraphNode(_) => EnableGraphNode::CLASS,
            Self::UpdateGraph(_) => UpdateGraph::CLASS,
            Self::DestroyGraph(_) => DestroyGraph::CLASS,
            Self::AddGraphWords(_) => AddGraphWords::CLASS,
            Self::SetGraphWords(_) => SetGraphWords::CLASS,
            Self::CreateGraphCondition(_) => CreateGraphCondition::CLASS,
            Self::AddGraphConditional(_) => AddGraphConditional::CLASS,
            Self::Launch(_) => Launch::CLASS,
            Self::HostFunction(_) => HostFunction::CLASS,
            Self::HostFunctionDone(_) => HostFunctionDone::CLASS,
            Self::MaxActiveBlocks(_) => MaxActiveBlocks::CLASS,
            Self::AvailableShared(_) => AvailableShared::CLASS,
            Self::ClusterOccupancy(_) => ClusterOccupancy::CLASS,
            Self::LibraryPart(_) => LibraryPart::CLASS,
            Self::UnloadLibrary(_) => UnloadLibrary::CLASS,
            Self::ListKernels(_) => ListKernels::CLASS,
            Self::FindKernel(_) => FindKernel::CLASS,
            Self::FindGlobal(_) => FindGlobal::CLASS,
            Self::SetKernelAttribute(_) => SetKernelAttribute::CLASS,
            Self::LoadLibrary(_) => LoadLibrary::CLASS,
            Self::LinkLibrary(_) => LinkLibrary::CLASS,
            Self::ReadLinked(_) => ReadLinked::CLASS,
            Self::CreateBlock(_) => CreateBlock::CLASS,
            Self::ReleaseBlock(_) => ReleaseBlock::CLASS,
            Self::MapBlock(_) => MapBlock::CLASS,
            Self::SetAccess(_) => SetAccess::CLASS,
            Self::UnmapRange(_) => UnmapRange::CLASS,
            Self::MemoryInfo(_) => MemoryInfo::CLASS,
            Self::Migrate(_) => Migrate::CLASS,
            Self::CancelMigrate(_) => CancelMigrate::CLASS,
            Self::MirrorMemory(_) => MirrorMemory::CLASS,
            Self::UnmirrorMemory(_) => UnmirrorMemory::CLASS,
            Self::WriteMirror(_) => WriteMirror::CLASS,
            Self::Export(_) => Export::CLASS,
            Self::Withdraw(_) => Withdraw::CLASS,
            Self::ImportBlock(_) => ImportBlock::CLASS,
            Self::CreateSignals(_) => CreateSignals::CLASS,
            Self::ImportSignals(_) => ImportSignals::CLASS,
            Self::DropSignals(_) => DropSignals::CLASS,
            Self::RaiseSignal(_) => RaiseSignal::CLASS,
            Self::AwaitSignal(_) => AwaitSignal::CLASS,
            Self::RecordSignal(_) => RecordSignal::CLASS,
            Self::ReadSignals(_) => ReadSignals::CLASS,
            Self::AskPeer(_) => AskPeer::CLASS,
            Self::ConnectPeer(_) => ConnectPeer::CLASS,
            Self::DropPeer(_) => DropPeer::CLASS,
            Self::SendTo(_) => SendTo::CLASS,
            Self::ReceiveFrom(_) => ReceiveFrom::CLASS,
            Self::PeerHello(_) => PeerHello::CLASS,
            Self::PeerTicket(_) => PeerTicket::CLASS,
            Self::PeerJoin(_) => PeerJoin::CLASS,
            Self::PeerReady(_) => PeerReady::CLASS,
            Self::PeerDone(_) => PeerDone::CLASS,
            Self::RaiseNow(_) => RaiseNow::CLASS,
            Self::Hello(_) => Hello::CLASS,
            Self::Authenticate(_) => Authenticate::CLASS,
            Self::ListGpus(_) => ListGpus::CLASS,
            Self::ListSessions(_) => ListSessions::CLASS,
            Self::Attach(_) => Attach::CLASS,
            Self::Join(_) => Join::CLASS,
            Self::UseRings(_) => UseRings::CLASS,
            Self::Continue(_) => Continue::CLASS,
            Self::Acknowledge(_) => Acknowledge::CLASS,
            Self::Goodbye(_) => Goodbye::CLASS,
            Self::EndSession(_) => EndSession::CLASS,
            Self::Salt(_) => Salt::CLASS,
            Self::Heartbeat(_) => Heartbeat::CLASS,
            Self::Identify(_) => Identify::CLASS,
            Self::ShareMemory(_) => ShareMemory::CLASS,
            Self::MapShared(_) => MapShared::CLASS,
            Self::UnmapShared(_) => UnmapShared::CLASS,
            Self::ShareFile(_) => ShareFile::CLASS,
            Self::CreateStream(_) => CreateStream::CLASS,
            Self::DestroyStream(_) => DestroyStream::CLASS,
            Self::WaitEvent(_) => WaitEvent::CLASS,
            Self::SynchronizeStream(_) => SynchronizeStream::CLASS,
            Self::QueryStream(_) => QueryStream::CLASS,
            Self::CreateApartStream(_) => CreateApartStream::CLASS,
            Self::MemoryOperations(_) => MemoryOperations::CLASS,
            Self::ReadTelemetry(_) => ReadTelemetry::CLASS,
            Self::EncodeTensorMap(_) => EncodeTensorMap::CLASS,
            Self::CreateTexture(_) => CreateTexture::CLASS,
            Self::DestroyTexture(_) => DestroyTexture::CLASS,
            Self::CreateSurface(_) => CreateSurface::CLASS,
            Self::DestroySurface(_) => DestroySurface::CLASS,
            Self::SetTextureReference(_) => SetTextureReference::CLASS,
        }
    }

    /// The frame's kind.
    #[must_use]
    pub fn kind(&self) -> u16 {
        match self {
            Self::StartActivities(_) => StartActivities::KIND,
            Self::StopActivities(_) => StopActivities::KIND,
            Self::TakeActivities(_) => TakeActivities::KIND,
            Self::AskActivityClock(_) => AskActivityClock::KIND,
            Self::CreateArray(_) => CreateArray::KIND,
            Self::DestroyArray(_) => DestroyArray::KIND,
            Self::TakeLevel(_) => TakeLevel::KIND,
            Self::OpenCollectives(_) => OpenCollectives::KIND,
            Self::NewUniqueId(_) => NewUniqueId::KIND,
            Self::InitComm(_) => InitComm::KIND,
            Self::SplitComm(_) => SplitComm::KIND,
            Self::ShrinkComm(_) => ShrinkComm::KIND,
            Self::CollectiveGroup(_) => CollectiveGroup::KIND,
            Self::AskComm(_) => AskComm::KIND,
            Self::EndComm(_) => EndComm::KIND,
            Self::AbortComm(_) => AbortComm::KIND,
            Self::CreateReduction(_) => CreateReduction::KIND,
            Self::DestroyReduction(_) => DestroyReduction::KIND,
            Self::RegisterBuffer(_) => RegisterBuffer::KIND,
            Self::DeregisterBuffer(_) => DeregisterBuffer::KIND,
            Self::PeerPort(_) => PeerPort::KIND,
            Self::NewGrowId(_) => NewGrowId::KIND,
            Self::GrowComm(_) => GrowComm::KIND,
            Self::SuspendComm(_) => SuspendComm::KIND,
            Self::ReadCommMemory(_) => ReadCommMemory::KIND,
            Self::SimulateGroup(_) => SimulateGroup::KIND,
            Self::ReadParameter(_) => ReadParameter::KIND,
            Self::ListParameters(_) => ListParameters::KIND,
            Self::SynchronizeContext(_) => SynchronizeContext::KIND,
            Self::SetLimit(_) => SetLimit::KIND,
            Self::ResetContext(_) => ResetContext::KIND,
            Self::SetCacheConfig(_) => SetCacheConfig::KIND,
            Self::CopyToDevice(_) => CopyToDevice::KIND,
            Self::CopyFromDevice(_) => CopyFromDevice::KIND,
            Self::CopyOnDevice(_) => CopyOnDevice::KIND,
            Self::CopyBoxToDevice(_) => CopyBoxToDevice::KIND,
            Self::CopyBoxFromDevice(_) => CopyBoxFromDevice::KIND,
            Self::CopyBoxOnDevice(_) => CopyBoxOnDevice::KIND,
            Self::Fill(_) => Fill::KIND,
            Self::CopyLate(_) => CopyLate::KIND,
            Self::LateBytes(_) => LateBytes::KIND,
            Self::CopyBulkToDevice(_) => CopyBulkToDevice::KIND,
            Self::Chunk(_) => Chunk::KIND,
            Self::CreateEvent(_) => CreateEvent::KIND,
            Self::RecordEvent(_) => RecordEvent::KIND,
            Self::SynchronizeEvent(_) => SynchronizeEvent::KIND,
            Self::QueryEvent(_) => QueryEvent::KIND,
            Self::ElapsedTime(_) => ElapsedTime::KIND,
            Self::DestroyEvent(_) => DestroyEvent::KIND,
            Self::CreateGraph(_) => CreateGraph::KIND,
            Self::AddGraphKernel(_) => AddGraphKernel::KIND,
            Self::AddGraphCopy(_) => AddGraphCopy::KIND,
            Self::AddGraphFill(_) => AddGraphFill::KIND,
            Self::AddGraphEmpty(_) => AddGraphEmpty::KIND,
            Self::InstantiateGraph(_) => InstantiateGraph::KIND,
            Self::LaunchGraph(_) => LaunchGraph::KIND,
            Self::UploadGraph(_) => UploadGraph::KIND,
            Self::SetGraphKernel(_) => SetGraphKernel::KIND,
            Self::SetGraphCopy(_) => SetGraphCopy::KIND,
            Self::SetGraphFill(_) => SetGraphFill::KIND,
            Self::EnableGraphNode(_) => EnableGraphNode::KIND,
            Self::UpdateGraph(_) => UpdateGraph::KIND,
            Self::DestroyGraph(_) => DestroyGraph::KIND,
            Self::AddGraphWords(_) => AddGraphWords::KIND,
            Self::SetGraphWords(_) => SetGraphWords::KIND,
            Self::CreateGraphCondition(_) => CreateGraphCondition::KIND,
            Self::AddGraphConditional(_) => AddGraphConditional::KIND,
            Self::Launch(_) => Launch::KIND,
            Self::HostFunction(_) => HostFunction::KIND,
            Self::HostFunctionDone(_) => HostFunctionDone::KIND,
            Self::MaxActiveBlocks(_) => MaxActiveBlocks::KIND,
            Self::AvailableShared(_) => AvailableShared::KIND,
            Self::ClusterOccupancy(_) => ClusterOccupancy::KIND,
            Self::LibraryPart(_) => LibraryPart::KIND,
            Self::UnloadLibrary(_) => UnloadLibrary::KIND,
            Self::ListKernels(_) => ListKernels::KIND,
            Self::FindKernel(_) => FindKernel::KIND,
            Self::FindGlobal(_) => FindGlobal::KIND,
            Self::SetKernelAttribute(_) => SetKernelAttribute::KIND,
            Self::LoadLibrary(_) => LoadLibrary::KIND,
            Self::LinkLibrary(_) => LinkLibrary::KIND,
            Self::ReadLinked(_) => ReadLinked::KIND,
            Self::CreateBlock(_) => CreateBlock::KIND,
            Self::ReleaseBlock(_) => ReleaseBlock::KIND,
            Self::MapBlock(_) => MapBlock::KIND,
            Self::SetAccess(_) => SetAccess::KIND,
            Self::UnmapRange(_) => UnmapRange::KIND,
            Self::MemoryInfo(_) => MemoryInfo::KIND,
            Self::Migrate(_) => Migrate::KIND,
            Self::CancelMigrate(_) => CancelMigrate::KIND,
            Self::MirrorMemory(_) => MirrorMemory::KIND,
            Self::UnmirrorMemory(_) => UnmirrorMemory::KIND,
            Self::WriteMirror(_) => WriteMirror::KIND,
            Self::Export(_) => Export::KIND,
            Self::Withdraw(_) => Withdraw::KIND,
            Self::ImportBlock(_) => ImportBlock::KIND,
            Self::CreateSignals(_) => CreateSignals::KIND,
            Self::ImportSignals(_) => ImportSignals::KIND,
            Self::DropSignals(_) => DropSignals::KIND,
            Self::RaiseSignal(_) => RaiseSignal::KIND,
            Self::AwaitSignal(_) => AwaitSignal::KIND,
            Self::RecordSignal(_) => RecordSignal::KIND,
            Self::ReadSignals(_) => ReadSignals::KIND,
            Self::AskPeer(_) => AskPeer::KIND,
            Self::ConnectPeer(_) => ConnectPeer::KIND,
            Self::DropPeer(_) => DropPeer::KIND,
            Self::SendTo(_) => SendTo::KIND,
            Self::ReceiveFrom(_) => ReceiveFrom::KIND,
            Self::PeerHello(_) => PeerHello::KIND,
            Self::PeerTicket(_) => PeerTicket::KIND,
            Self::PeerJoin(_) => PeerJoin::KIND,
            Self::PeerReady(_) => PeerReady::KIND,
            Self::PeerDone(_) => PeerDone::KIND,
            Self::RaiseNow(_) => RaiseNow::KIND,
            Self::Hello(_) => Hello::KIND,
            Self::Authenticate(_) => Authenticate::KIND,
            Self::ListGpus(_) => ListGpus::KIND,
            Self::ListSessions(_) => ListSessions::KIND,
            Self::Attach(_) => Attach::KIND,
            Self::Join(_) => Join::KIND,
            Self::UseRings(_) => UseRings::KIND,
            Self::Continue(_) => Continue::KIND,
            Self::Acknowledge(_) => Acknowledge::KIND,
            Self::Goodbye(_) => Goodbye::KIND,
            Self::EndSession(_) => EndSession::KIND,
            Self::Salt(_) => Salt::KIND,
            Self::Heartbeat(_) => Heartbeat::KIND,
            Self::Identify(_) => Identify::KIND,
            Self::ShareMemory(_) => ShareMemory::KIND,
            Self::MapShared(_) => MapShared::KIND,
            Self::UnmapShared(_) => UnmapShared::KIND,
            Self::ShareFile(_) => ShareFile::KIND,
            Self::CreateStream(_) => CreateStream::KIND,
            Self::DestroyStream(_) => DestroyStream::KIND,
            Self::WaitEvent(_) => WaitEvent::KIND,
            Self::SynchronizeStream(_) => SynchronizeStream::KIND,
            Self::QueryStream(_) => QueryStream::KIND,
            Self::CreateApartStream(_) => CreateApartStream::KIND,
            Self::MemoryOperations(_) => MemoryOperations::KIND,
            Self::ReadTelemetry(_) => ReadTelemetry::KIND,
            Self::EncodeTensorMap(_) => EncodeTensorMap::KIND,
            Self::CreateTexture(_) => CreateTexture::KIND,
            Self::DestroyTexture(_) => DestroyTexture::KIND,
            Self::CreateSurface(_) => CreateSurface::KIND,
            Self::DestroySurface(_) => DestroySurface::KIND,
            Self::SetTextureReference(_) => SetTextureReference::KIND,
        }
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::StartActivities(message) => message.encode(out),
            Self::StopActivities(message) => message.encode(out),
            Self::TakeActivities(message) => message.encode(out),
            Self::AskActivityClock(message) => message.encode(out),
            Self::CreateArray(message) => message.encode(out),
            Self::DestroyArray(message) => message.encode(out),
            Self::TakeLevel(message) => message.encode(out),
            Self::OpenCollectives(message) => message.encode(out),
            Self::NewUniqueId(message) => message.encode(out),
            Self::InitComm(message) => message.encode(out),
            Self::SplitComm(message) => message.encode(out),
            Self::ShrinkComm(message) => message.encode(out),
            Self::CollectiveGroup(message) => message.encode(out),
            Self::AskComm(message) => message.encode(out),
            Self::EndComm(message) => message.encode(out),
            Self::AbortComm(message) => message.encode(out),
            Self::CreateReduction(message) => message.encode(out),
            Self::DestroyReduction(message) => message.encode(out),
            Self::RegisterBuffer(message) => message.encode(out),
            Self::DeregisterBuffer(message) => message.encode(out),
            Self::PeerPort(message) => message.encode(out),
            Self::NewGrowId(message) => message.encode(out),
            Self::GrowComm(message) => message.encode(out),
            Self::SuspendComm(message) => message.encode(out),
            Self::ReadCommMemory(message) => message.encode(out),
            Self::SimulateGroup(message) => message.encode(out),
            Self::ReadParameter(message) => message.encode(out),
            Self::ListParameters(message) => message.encode(out),
            Self::SynchronizeContext(message) => message.encode(out),
            Self::SetLimit(message) => message.encode(out),
            Self::ResetContext(message) => message.encode(out),
            Self::SetCacheConfig(message) => message.encode(out),
            Self::CopyToDevice(message) => message.encode(out),
            Self::CopyFromDevice(message) => message.encode(out),
            Self::CopyOnDevice(message) => message.encode(out),
            Self::CopyBoxToDevice(message) => message.encode(out),
            Self::CopyBoxFromDevice(message) => message.encode(out),
            Self::CopyBoxOnDevice(message) => message.encode(out),
            Self::Fill(message) => message.encode(out),
            Self::CopyLate(message) => message.encode(out),
            Self::LateBytes(message) => message.encode(out),
            Self::CopyBulkToDevice(message) => message.encode(out),
            Self::Chunk(message) => message.encode(out),
            Self::CreateEvent(message) => message.encode(out),
            Self::RecordEvent(message) => message.encode(out),
            Self::SynchronizeEvent(message) => message.encode(out),
            Self::QueryEvent(message) => message.encode(out),
            Self::ElapsedTime(message) => message.encode(out),
            Self::DestroyEvent(message) => message.encode(out),
            Self::CreateGraph(message) => message.encode(out),
            Self::AddGraphKernel(message) => message.encode(out),
            Self::AddGraphCopy(message) => message.encode(out),
            Self::AddGraphFill(message) => message.encode(out),
            Self::AddGraphEmpty(message) => message.encode(out),
            Self::InstantiateGraph(message) => message.encode(out),
            Self::LaunchGraph(message) => message.encode(out),
            Self::UploadGraph(message) => message.encode(out),
            Self::SetGraphKernel(message) => message.encode(out),
            Self::SetGraphCopy(message) => message.encode(out),
            Self::SetGraphFill(message) => message.encode(out),
            Self::EnableGraphNode(message) => message.encode(out),
            Self::UpdateGraph(message) => message.encode(out),
            Self::DestroyGraph(message) => message.encode(out),
            Self::AddGraphWords(message) => message.encode(out),
            Self::SetGraphWords(message) => message.encode(out),
            Self::CreateGraphCondition(message) => message.encode(out),
            Self::AddGraphConditional(message) => message.encode(out),
            Self::Launch(message) => message.encode(out),
            Self::HostFunction(message) => message.encode(out),
            Self::HostFunctionDone(message) => message.encode(out),
            Self::MaxActiveBlocks(message) => message.encode(out),
            Self::AvailableShared(message) => message.encode(out),
            Self::ClusterOccupancy(message) => message.encode(out),
            Self::LibraryPart(message) => message.encode(out),
            Self::UnloadLibrary(message) => message.encode(out),
            Self::ListKernels(message) => message.encode(out),
            Self::FindKernel(message) => message.encode(out),
            Self::FindGlobal(message) => message.encode(out),
            Self::SetKernelAttribute(message) => message.encode(out),
            Self::LoadLibrary(message) => message.encode(out),
            Self::LinkLibrary(message) => message.encode(out),
            Self::ReadLinked(message) => message.encode(out),
            Self::CreateBlock(message) => message.encode(out),
            Self::ReleaseBlock(message) => message.encode(out),
            Self::MapBlock(message) => message.encode(out),
            Self::SetAccess(message) => message.encode(out),
            Self::UnmapRange(message) => message.encode(out),
            Self::MemoryInfo(message) => message.encode(out),
            Self::Migrate(message) => message.encode(out),
            Self::CancelMigrate(message) => message.encode(out),
            Self::MirrorMemory(message) => message.encode(out),
            Self::UnmirrorMemory(message) => message.encode(out),
            Self::WriteMirror(message) => message.encode(out),
            Self::Export(message) => message.encode(out),
            Self::Withdraw(message) => message.encode(out),
            Self::ImportBlock(message) => message.encode(out),
            Self::CreateSignals(message) => message.encode(out),
            Self::ImportSignals(message) => message.encode(out),
            Self::DropSignals(message) => message.encode(out),
            Self::RaiseSignal(message) => message.encode(out),
            Self::AwaitSignal(message) => message.encode(out),
            Self::RecordSignal(message) => message.encode(out),
            Self::ReadSignals(message) => message.encode(out),
            Self::AskPeer(message) => message.encode(out),
            Self::ConnectPeer(message) => message.encode(out),
            Self::DropPeer(message) => message.encode(out),
            Self::SendTo(message) => message.encode(out),
            Self::ReceiveFrom(message) => message.encode(out),
            Self::PeerHello(message) => message.encode(out),
            Self::PeerTicket(message) => message.encode(out),
            Self::PeerJoin(message) => message.encode(out),
            Self::PeerReady(message) => message.encode(out),
            Self::PeerDone(message) => message.encode(out),
            Self::RaiseNow(message) => message.encode(out),
            Self::Hello(message) => message.encode(out),
            Self::Authenticate(message) => message.encode(out),
            Self::ListGpus(message) => message.encode(out),
            Self::ListSessions(message) => message.encode(out),
            Self::Attach(message) => message.encode(out),
            Self::Join(message) => message.encode(out),
            Self::UseRings(message) => message.encode(out),
            Self::Continue(message) => message.encode(out),
            Self::Acknowledge(message) => message.encode(out),
            Self::Goodbye(message) => message.encode(out),
            Self::EndSession(message) => message.encode(out),
            Self::Salt(message) => message.encode(out),
            Self::Heartbeat(message) => message.encode(out),
            Self::Identify(message) => message.encode(out),
            Self::ShareMemory(message) => message.encode(out),
            Self::MapShared(message) => message.encode(out),
            Self::UnmapShared(message) => message.encode(out),
            Self::ShareFile(message) => message.encode(out),
            Self::CreateStream(message) => message.encode(out),
            Self::DestroyStream(message) => message.encode(out),
            Self::WaitEvent(message) => message.encode(out),
            Self::SynchronizeStream(message) => message.encode(out),
            Self::QueryStream(message) => message.encode(out),
            Self::CreateApartStream(message) => message.encode(out),
            Self::MemoryOperations(message) => message.encode(out),
            Self::ReadTelemetry(message) => message.encode(out),
            Self::EncodeTensorMap(message) => message.encode(out),
            Self::CreateTexture(message) => message.encode(out),
            Self::DestroyTexture(message) => message.encode(out),
            Self::CreateSurface(message) => message.encode(out),
            Self::DestroySurface(message) => message.encode(out),
            Self::SetTextureReference(message) => message.encode(out),
        }
    }
}

impl Request<'_> {
    /// Has a handler carry the command out.
    ///
    /// # Errors
    /// The handler's; [`Handler::misplaced`] where the message is no command.
    pub fn dispatch<H>(self, handler: &mut H) -> Result<H::Answer, H::Fault>
    where
        H: ActivityRequests
            + ArrayRequests
            + CollectiveRequests
            + ContextRequests
            + CopyRequests
            + EventRequests
            + GraphRequests
            + LaunchRequests
            + LibraryRequests
            + LinkRequests
            + MemoryRequests
            + MirrorRequests
            + PeerRequests
            + SharingRequests
            + StreamRequests
            + StreamMemoryRequests
            + TensorMapRequests
            + TextureRequests,
    {
        match self {
            Self::StartActivities(message) => handler.start_activities(message),
            Self::StopActivities(message) => handler.stop_activities(message),
            Self::TakeActivities(message) => handler.take_activities(message),
            Self::AskActivityClock(_) => Err(H::misplaced(Recipient::Reader)),
            Self::CreateArray(message) => handler.create_array(message),
            Self::DestroyArray(message) => handler.destroy_array(message),
            Self::TakeLevel(message) => handler.take_level(message),
            Self::OpenCollectives(message) => handler.open_collectives(&message),
            Self::NewUniqueId(message) => handler.new_unique_id(message),
            Self::InitComm(message) => handler.init_comm(&message),
            Self::SplitComm(message) => handler.split_comm(&message),
            Self::ShrinkComm(message) => handler.shrink_comm(&message),
            Self::CollectiveGroup(message) => handler.collective_group(&message),
            Self::AskComm(_) => Err(H::misplaced(Recipient::Reader)),
            Self::EndComm(message) => handler.end_comm(message),
            Self::AbortComm(_) => Err(H::misplaced(Recipient::Reader)),
            Self::CreateReduction(message) => handler.create_reduction(message),
            Self::DestroyReduction(message) => handler.destroy_reduction(message),
            Self::RegisterBuffer(message) => handler.register_buffer(message),
            Self::DeregisterBuffer(message) => handler.deregister_buffer(message),
            Self::PeerPort(_) => Err(H::misplaced(Recipient::Connection)),
            Self::NewGrowId(message) => handler.new_grow_id(message),
            Self::GrowComm(message) => handler.grow_comm(&message),
            Self::SuspendComm(message) => handler.suspend_comm(message),
            Self::ReadCommMemory(message) => handler.read_comm_memory(message),
            Self::SimulateGroup(message) => handler.simulate_group(&message),
            Self::ReadParameter(message) => handler.read_parameter(message),
            Self::ListParameters(message) => handler.list_parameters(message),
            Self::SynchronizeContext(message) => handler.synchronize_context(message),
            Self::SetLimit(message) => handler.set_limit(message),
            Self::ResetContext(message) => handler.reset_context(message),
            Self::SetCacheConfig(message) => handler.set_cache_config(message),
            Self::CopyToDevice(message) => handler.copy_to_device(message),
            Self::CopyFromDevice(message) => handler.copy_from_device(message),
            Self::CopyOnDevice(message) => handler.copy_on_device(message),
            Self::CopyBoxToDevice(message) => handler.copy_box_to_device(&message),
            Self::CopyBoxFromDevice(message) => handler.copy_box_from_device(&message),
            Self::CopyBoxOnDevice(message) => handler.copy_box_on_device(&message),
            Self::Fill(message) => handler.fill(message),
            Self::CopyLate(message) => handler.copy_late(&message),
            Self::LateBytes(_) => Err(H::misplaced(Recipient::Reader)),
            Self::CopyBulkToDevice(message) => handler.copy_bulk_to_device(message),
            Self::Chunk(_) => Err(H::misplaced(Recipient::Connection)),
            Self::CreateEvent(message) => handler.create_event(message),
            Self::RecordEvent(message) => handler.record_event(message),
            Self::SynchronizeEvent(message) => handler.synchronize_event(message),
            Self::QueryEvent(message) => handler.query_event(message),
            Self::ElapsedTime(message) => handler.elapsed_time(message),
            Self::DestroyEvent(message) => handler.destroy_event(message),
            Self::CreateGraph(message) => handler.create_graph(message),
            Self::AddGraphKernel(message) => handler.add_graph_kernel(&message),
            Self::AddGraphCopy(message) => handler.add_graph_copy(&message),
            Self::AddGraphFill(message) => handler.add_graph_fill(&message),
            Self::AddGraphEmpty(message) => handler.add_graph_empty(&message),
            Self::InstantiateGraph(message) => handler.instantiate_graph(message),
            Self::LaunchGraph(message) => handler.launch_graph(message),
            Self::UploadGraph(message) => handler.upload_graph(message),
            Self::SetGraphKernel(message) => handler.set_graph_kernel(message),
            Self::SetGraphCopy(message) => handler.set_graph_copy(&message),
            Self::SetGraphFill(message) => handler.set_graph_fill(&message),
            Self::EnableGraphNode(message) => handler.enable_graph_node(message),
            Self::UpdateGraph(message) => handler.update_graph(message),
            Self::DestroyGraph(message) => handler.destroy_graph(message),
            Self::AddGraphWords(message) => handler.add_graph_words(&message),
            Self::SetGraphWords(message) => handler.set_graph_words(&message),
            Self::CreateGraphCondition(message) => handler.create_graph_condition(message),
            Self::AddGraphConditional(message) => handler.add_graph_conditional(&message),
            Self::Launch(message) => handler.launch(&message),
            Self::HostFunction(message) => handler.host_function(message),
            Self::HostFunctionDone(_) => Err(H::misplaced(Recipient::Reader)),
            Self::MaxActiveBlocks(message) => handler.max_active_blocks(message),
            Self::AvailableShared(message) => handler.available_shared(message),
            Self::ClusterOccupancy(message) => handler.cluster_occupancy(&message),
            Self::LibraryPart(message) => handler.library_part(message),
            Self::UnloadLibrary(message) => handler.unload_library(message),
            Self::ListKernels(message) => handler.list_kernels(message),
            Self::FindKernel(message) => handler.find_kernel(message),
            Self::FindGlobal(message) => handler.find_global(message),
            Self::SetKernelAttribute(message) => handler.set_kernel_attribute(message),
            Self::LoadLibrary(message) => handler.load_library(&message),
            Self::LinkLibrary(message) => handler.link_library(&message),
            Self::ReadLinked(message) => handler.read_linked(message),
            Self::CreateBlock(message) => handler.create_block(message),
            Self::ReleaseBlock(message) => handler.release_block(message),
            Self::MapBlock(message) => handler.map_block(message),
            Self::SetAccess(message) => handler.set_access(message),
            Self::UnmapRange(message) => handler.unmap_range(message),
            Self::MemoryInfo(message) => handler.memory_info(message),
            Self::Migrate(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::CancelMigrate(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::MirrorMemory(message) => handler.mirror_memory(message),
            Self::UnmirrorMemory(message) => handler.unmirror_memory(message),
            Self::WriteMirror(_) => Err(H::misplaced(Recipient::Reader)),
            Self::Export(message) => handler.export(message),
            Self::Withdraw(message) => handler.withdraw(message),
            Self::ImportBlock(message) => handler.import_block(message),
            Self::CreateSignals(message) => handler.create_signals(message),
            Self::ImportSignals(message) => handler.import_signals(message),
            Self::DropSignals(message) => handler.drop_signals(message),
            Self::RaiseSignal(message) => handler.raise_signal(message),
            Self::AwaitSignal(message) => handler.await_signal(message),
            Self::RecordSignal(message) => handler.record_signal(message),
            Self::ReadSignals(message) => handler.read_signals(message),
            Self::AskPeer(message) => handler.ask_peer(message),
            Self::ConnectPeer(message) => handler.connect_peer(message),
            Self::DropPeer(message) => handler.drop_peer(message),
            Self::SendTo(message) => handler.send_to(message),
            Self::ReceiveFrom(message) => handler.receive_from(message),
            Self::PeerHello(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::PeerTicket(_) => Err(H::misplaced(Recipient::Connection)),
            Self::PeerJoin(_) => Err(H::misplaced(Recipient::Connection)),
            Self::PeerReady(_) => Err(H::misplaced(Recipient::Connection)),
            Self::PeerDone(_) => Err(H::misplaced(Recipient::Connection)),
            Self::RaiseNow(_) => Err(H::misplaced(Recipient::Reader)),
            Self::Hello(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::Authenticate(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::ListGpus(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::ListSessions(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::Attach(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::Join(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::UseRings(_) => Err(H::misplaced(Recipient::Connection)),
            Self::Continue(_) => Err(H::misplaced(Recipient::Connection)),
            Self::Acknowledge(_) => Err(H::misplaced(Recipient::Connection)),
            Self::Goodbye(_) => Err(H::misplaced(Recipient::Connection)),
            Self::EndSession(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::Salt(_) => Err(H::misplaced(Recipient::Connection)),
            Self::Heartbeat(_) => Err(H::misplaced(Recipient::Connection)),
            Self::Identify(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::ShareMemory(message) => handler.share_memory(message),
            Self::MapShared(message) => handler.map_shared(message),
            Self::UnmapShared(message) => handler.unmap_shared(message),
            Self::ShareFile(message) => handler.share_file(message),
            Self::CreateStream(message) => handler.create_stream(message),
            Self::DestroyStream(message) => handler.destroy_stream(message),
            Self::WaitEvent(message) => handler.wait_event(message),
            Self::SynchronizeStream(message) => handler.synchronize_stream(message),
            Self::QueryStream(message) => handler.query_stream(message),
            Self::CreateApartStream(message) => handler.create_apart_stream(message),
            Self::MemoryOperations(message) => handler.memory_operations(&message),
            Self::ReadTelemetry(_) => Err(H::misplaced(Recipient::Daemon)),
            Self::EncodeTensorMap(message) => handler.encode_tensor_map(&message),
            Self::CreateTexture(message) => handler.create_texture(&message),
            Self::DestroyTexture(message) => handler.destroy_texture(message),
            Self::CreateSurface(message) => handler.create_surface(message),
            Self::DestroySurface(message) => handler.destroy_surface(message),
            Self::SetTextureReference(message) => handler.set_texture_reference(&message),
        }
    }
}

impl Request<'_> {
    /// What the command does to the objects of its session.
    #[must_use]
    pub fn recipe(&self) -> Recipe {
        match self {
            Self::CreateArray(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Array, id: it.array.0 }, of: None }
            }
            Self::DestroyArray(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Array, id: it.array.0 }, bytes: None }
            }
            Self::TakeLevel(it) => Recipe::Makes {
                object: Object { kind: ObjectKind::Array, id: it.array.0 },
                of: Some(Object { kind: ObjectKind::Array, id: it.of.0 }),
            },
            Self::SetLimit(it) => Recipe::Changes {
                object: Object::CONTEXT,
                bytes: None,
                by: Some(Key::default().with(&it.limit)),
                absorbs: None,
            },
            Self::ResetContext(_) => Recipe::Ends { object: Object::CONTEXT, bytes: None },
            Self::SetCacheConfig(it) => Recipe::Changes {
                object: Object::CONTEXT,
                bytes: None,
                by: Some(Key::default().with(&it.what)),
                absorbs: None,
            },
            Self::CreateEvent(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Event, id: it.event.0 }, of: None }
            }
            Self::DestroyEvent(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Event, id: it.event.0 }, bytes: None }
            }
            Self::CreateGraph(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Graph, id: it.graph.0 }, of: None }
            }
            Self::AddGraphKernel(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::AddGraphCopy(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::AddGraphFill(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::AddGraphEmpty(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::InstantiateGraph(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::SetGraphKernel(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: Some(Key::default().with(&it.node)),
                absorbs: None,
            },
            Self::SetGraphCopy(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: Some(Key::default().with(&it.node)),
                absorbs: None,
            },
            Self::SetGraphFill(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: Some(Key::default().with(&it.node)),
                absorbs: None,
            },
            Self::EnableGraphNode(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: Some(Key::default().with(&it.node)),
                absorbs: None,
            },
            Self::UpdateGraph(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: Some(Key::default()),
                absorbs: Some(Object { kind: ObjectKind::Graph, id: it.new.0 }),
            },
            Self::DestroyGraph(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Graph, id: it.graph.0 }, bytes: None }
            }
            Self::AddGraphWords(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::SetGraphWords(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: Some(Key::default().with(&it.node)),
                absorbs: None,
            },
            Self::CreateGraphCondition(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::AddGraphConditional(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Graph, id: it.graph.0 },
                bytes: None,
                by: None,
                absorbs: None,
            },
            Self::UnloadLibrary(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Library, id: it.library.0 }, bytes: None }
            }
            Self::FindKernel(it) => Recipe::Makes {
                object: Object { kind: ObjectKind::Kernel, id: it.kernel.0 },
                of: Some(Object { kind: ObjectKind::Library, id: it.library.0 }),
            },
            Self::FindGlobal(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Library, id: it.library.0 },
                bytes: None,
                by: Some(Key::default().with(&it.name)),
                absorbs: None,
            },
            Self::SetKernelAttribute(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Kernel, id: it.kernel.0 },
                bytes: None,
                by: Some(Key::default().with(&it.what).with(&it.number)),
                absorbs: None,
            },
            Self::LoadLibrary(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Library, id: it.library.0 }, of: None }
            }
            Self::CreateBlock(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Block, id: it.block.0 }, of: None }
            }
            Self::ReleaseBlock(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Block, id: it.block.0 }, bytes: None }
            }
            Self::MapBlock(it) => Recipe::Makes {
                object: Object { kind: ObjectKind::Mapping, id: it.at.0 },
                of: Some(Object { kind: ObjectKind::Block, id: it.block.0 }),
            },
            Self::SetAccess(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Mapping, id: it.at.0 },
                bytes: Some(it.bytes),
                by: None,
                absorbs: None,
            },
            Self::UnmapRange(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Mapping, id: it.at.0 }, bytes: Some(it.bytes) }
            }
            Self::MirrorMemory(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Mirror, id: it.at.0 }, of: None }
            }
            Self::UnmirrorMemory(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Mirror, id: it.at.0 }, bytes: None }
            }
            Self::Export(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Ticket, id: it.ticket.0 }, of: None }
            }
            Self::Withdraw(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Ticket, id: it.ticket.0 }, bytes: None }
            }
            Self::ImportBlock(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Block, id: it.block.0 }, of: None }
            }
            Self::CreateSignals(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Signals, id: it.signals.0 }, of: None }
            }
            Self::ImportSignals(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Signals, id: it.signals.0 }, of: None }
            }
            Self::DropSignals(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Signals, id: it.signals.0 }, bytes: None }
            }
            Self::ConnectPeer(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::PeerLink, id: it.link.0 }, of: None }
            }
            Self::DropPeer(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::PeerLink, id: it.link.0 }, bytes: None }
            }
            Self::ShareMemory(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Memory, id: it.at.0 }, of: None }
            }
            Self::MapShared(it) => Recipe::Makes { object: Object { kind: ObjectKind::Pages, id: it.at.0 }, of: None },
            Self::UnmapShared(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Pages, id: it.at.0 }, bytes: None }
            }
            Self::ShareFile(it) => Recipe::Makes { object: Object { kind: ObjectKind::Pages, id: it.at.0 }, of: None },
            Self::CreateStream(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Stream, id: it.stream.0 }, of: None }
            }
            Self::DestroyStream(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Stream, id: it.stream.0 }, bytes: None }
            }
            Self::CreateApartStream(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Stream, id: it.stream.0 }, of: None }
            }
            Self::CreateTexture(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Texture, id: it.texture.0 }, of: None }
            }
            Self::DestroyTexture(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Texture, id: it.texture.0 }, bytes: None }
            }
            Self::CreateSurface(it) => {
                Recipe::Makes { object: Object { kind: ObjectKind::Surface, id: it.surface.0 }, of: None }
            }
            Self::DestroySurface(it) => {
                Recipe::Ends { object: Object { kind: ObjectKind::Surface, id: it.surface.0 }, bytes: None }
            }
            Self::SetTextureReference(it) => Recipe::Changes {
                object: Object { kind: ObjectKind::Library, id: it.library.0 },
                bytes: None,
                by: Some(Key::default().with(&it.name)),
                absorbs: None,
            },
            _ => Recipe::None,
        }
    }

    /// Gives `see` every object that a command of a recipe names.
    pub fn names(&self, see: &mut dyn FnMut(Object)) {
        match self {
            Self::CreateArray(it) => {
                see(Object { kind: ObjectKind::Array, id: it.array.0 });
            }
            Self::DestroyArray(it) => {
                see(Object { kind: ObjectKind::Array, id: it.array.0 });
            }
            Self::TakeLevel(it) => {
                see(Object { kind: ObjectKind::Array, id: it.of.0 });
                see(Object { kind: ObjectKind::Array, id: it.array.0 });
            }
            Self::CreateEvent(it) => {
                see(Object { kind: ObjectKind::Event, id: it.event.0 });
            }
            Self::DestroyEvent(it) => {
                see(Object { kind: ObjectKind::Event, id: it.event.0 });
            }
            Self::CreateGraph(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::AddGraphKernel(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
                see(Object { kind: ObjectKind::Kernel, id: it.kernel.0 });
            }
            Self::AddGraphCopy(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::AddGraphFill(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::AddGraphEmpty(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::InstantiateGraph(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::SetGraphKernel(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
                see(Object { kind: ObjectKind::Kernel, id: it.kernel.0 });
            }
            Self::SetGraphCopy(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::SetGraphFill(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::EnableGraphNode(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::UpdateGraph(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
                see(Object { kind: ObjectKind::Graph, id: it.new.0 });
            }
            Self::DestroyGraph(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::AddGraphWords(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::SetGraphWords(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::CreateGraphCondition(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
            }
            Self::AddGraphConditional(it) => {
                see(Object { kind: ObjectKind::Graph, id: it.graph.0 });
                for each in &it.bodies {
                    see(Object { kind: ObjectKind::Graph, id: each.0 });
                }
            }
            Self::UnloadLibrary(it) => {
                see(Object { kind: ObjectKind::Library, id: it.library.0 });
            }
            Self::FindKernel(it) => {
                see(Object { kind: ObjectKind::Library, id: it.library.0 });
                see(Object { kind: ObjectKind::Kernel, id: it.kernel.0 });
            }
            Self::FindGlobal(it) => {
                see(Object { kind: ObjectKind::Library, id: it.library.0 });
            }
            Self::SetKernelAttribute(it) => {
                see(Object { kind: ObjectKind::Kernel, id: it.kernel.0 });
            }
            Self::LoadLibrary(it) => {
                see(Object { kind: ObjectKind::Library, id: it.library.0 });
            }
            Self::CreateBlock(it) => {
                see(Object { kind: ObjectKind::Block, id: it.block.0 });
            }
            Self::ReleaseBlock(it) => {
                see(Object { kind: ObjectKind::Block, id: it.block.0 });
            }
            Self::MapBlock(it) => {
                see(Object { kind: ObjectKind::Block, id: it.block.0 });
            }
            Self::Export(it) => {
                see(Object { kind: ObjectKind::Ticket, id: it.ticket.0 });
            }
            Self::Withdraw(it) => {
                see(Object { kind: ObjectKind::Ticket, id: it.ticket.0 });
            }
            Self::ImportBlock(it) => {
                see(Object { kind: ObjectKind::Ticket, id: it.ticket.0 });
                see(Object { kind: ObjectKind::Block, id: it.object.0 });
                see(Object { kind: ObjectKind::Block, id: it.block.0 });
            }
            Self::CreateSignals(it) => {
                see(Object { kind: ObjectKind::Signals, id: it.signals.0 });
            }
            Self::ImportSignals(it) => {
                see(Object { kind: ObjectKind::Ticket, id: it.ticket.0 });
                see(Object { kind: ObjectKind::Signals, id: it.object.0 });
                see(Object { kind: ObjectKind::Signals, id: it.signals.0 });
            }
            Self::DropSignals(it) => {
                see(Object { kind: ObjectKind::Signals, id: it.signals.0 });
            }
            Self::ConnectPeer(it) => {
                see(Object { kind: ObjectKind::PeerLink, id: it.link.0 });
                see(Object { kind: ObjectKind::Ticket, id: it.ticket.0 });
            }
            Self::DropPeer(it) => {
                see(Object { kind: ObjectKind::PeerLink, id: it.link.0 });
            }
            Self::CreateStream(it) => {
                see(Object { kind: ObjectKind::Stream, id: it.stream.0 });
            }
            Self::DestroyStream(it) => {
                see(Object { kind: ObjectKind::Stream, id: it.stream.0 });
            }
            Self::CreateApartStream(it) => {
                see(Object { kind: ObjectKind::Stream, id: it.stream.0 });
            }
            Self::CreateTexture(it) => {
                see(Object { kind: ObjectKind::Texture, id: it.texture.0 });
                see(Object { kind: ObjectKind::Array, id: it.resource.array.0 });
            }
            Self::DestroyTexture(it) => {
                see(Object { kind: ObjectKind::Texture, id: it.texture.0 });
            }
            Self::CreateSurface(it) => {
                see(Object { kind: ObjectKind::Surface, id: it.surface.0 });
                see(Object { kind: ObjectKind::Array, id: it.array.0 });
            }
            Self::DestroySurface(it) => {
                see(Object { kind: ObjectKind::Surface, id: it.surface.0 });
            }
            Self::SetTextureReference(it) => {
                see(Object { kind: ObjectKind::Library, id: it.library.0 });
                for each in &it.resource {
                    see(Object { kind: ObjectKind::Array, id: each.array.0 });
                }
            }
            _ => {}
        }
    }
}

/// What a server says.
#[derive(Clone, Debug, PartialEq)]
pub enum Push<'a> {
    /// See [`Migrating`].
    Migrating(Migrating),
    /// See [`MirrorChanged`].
    MirrorChanged(MirrorChanged<'a>),
    /// See [`Reply`].
    Reply(Reply<'a>),
    /// See [`Ended`].
    Ended(Ended<'a>),
    /// See [`Output`].
    Output(Output<'a>),
    /// See [`Delivery`].
    Delivery(Delivery<'a>),
    /// See [`RunHostFunction`].
    RunHostFunction(RunHostFunction),
    /// See [`Progress`].
    Progress(Progress),
    /// See [`DeliveryFollows`].
    DeliveryFollows(DeliveryFollows),
    /// See [`Waiting`].
    Waiting(Waiting),
}

impl<'a> Push<'a> {
    /// Decodes a payload by its frame's kind.
    ///
    /// # Errors
    /// [`DecodeError`] when the kind is unknown or the payload is not exactly one such message.
    pub fn decode(kind: u16, payload: &'a [u8]) -> Result<Self, DecodeError> {
        match kind {
            Migrating::KIND => Migrating::decode(payload).map(Self::Migrating),
            MirrorChanged::KIND => MirrorChanged::decode(payload).map(Self::MirrorChanged),
            Reply::KIND => Reply::decode(payload).map(Self::Reply),
            Ended::KIND => Ended::decode(payload).map(Self::Ended),
            Output::KIND => Output::decode(payload).map(Self::Output),
            Delivery::KIND => Delivery::decode(payload).map(Self::Delivery),
            RunHostFunction::KIND => RunHostFunction::decode(payload).map(Self::RunHostFunction),
            Progress::KIND => Progress::decode(payload).map(Self::Progress),
            DeliveryFollows::KIND => DeliveryFollows::decode(payload).map(Self::DeliveryFollows),
            Waiting::KIND => Waiting::decode(payload).map(Self::Waiting),
            _ => Err(DecodeError::unknown_kind(kind)),
        }
    }

    /// The message's name in the table.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Migrating(_) => Migrating::NAME,
            Self::MirrorChanged(_) => MirrorChanged::NAME,
            Self::Reply(_) => Reply::NAME,
            Self::Ended(_) => Ended::NAME,
            Self::Output(_) => Output::NAME,
            Self::Delivery(_) => Delivery::NAME,
            Self::RunHostFunction(_) => RunHostFunction::NAME,
            Self::Progress(_) => Progress::NAME,
            Self::DeliveryFollows(_) => DeliveryFollows::NAME,
            Self::Waiting(_) => Waiting::NAME,
        }
    }

    /// Whether and how it is answered.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Migrating(_) => Migrating::CLASS,
            Self::MirrorChanged(_) => MirrorChanged::CLASS,
            Self::Reply(_) => Reply::CLASS,
            Self::Ended(_) => Ended::CLASS,
            Self::Output(_) => Output::CLASS,
            Self::Delivery(_) => Delivery::CLASS,
            Self::RunHostFunction(_) => RunHostFunction::CLASS,
            Self::Progress(_) => Progress::CLASS,
            Self::DeliveryFollows(_) => DeliveryFollows::CLASS,
            Self::Waiting(_) => Waiting::CLASS,
        }
    }

    /// The frame's kind.
    #[must_use]
    pub fn kind(&self) -> u16 {
        match self {
            Self::Migrating(_) => Migrating::KIND,
            Self::MirrorChanged(_) => MirrorChanged::KIND,
            Self::Reply(_) => Reply::KIND,
            Self::Ended(_) => Ended::KIND,
            Self::Output(_) => Output::KIND,
            Self::Delivery(_) => Delivery::KIND,
            Self::RunHostFunction(_) => RunHostFunction::KIND,
            Self::Progress(_) => Progress::KIND,
            Self::DeliveryFollows(_) => DeliveryFollows::KIND,
            Self::Waiting(_) => Waiting::KIND,
        }
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Migrating(message) => message.encode(out),
            Self::MirrorChanged(message) => message.encode(out),
            Self::Reply(message) => message.encode(out),
            Self::Ended(message) => message.encode(out),
            Self::Output(message) => message.encode(out),
            Self::Delivery(message) => message.encode(out),
            Self::RunHostFunction(message) => message.encode(out),
            Self::Progress(message) => message.encode(out),
            Self::DeliveryFollows(message) => message.encode(out),
            Self::Waiting(message) => message.encode(out),
        }
    }
}
