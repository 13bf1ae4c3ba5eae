//! For tests: builds each message from arbitrary bytes, so that a property can range over all of them.
//! It is compiled for tests only.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

use super::*;
use crate::sample::{Sample, Source};

impl<'a> Sample<'a> for StartActivities {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { wanted: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for StopActivities {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for TakeActivities {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { flush: Sample::sample(source), most: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AskActivityClock {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for Activity {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            kind: Sample::sample(source),
            copy_kind: Sample::sample(source),
            source_kind: Sample::sample(source),
            target_kind: Sample::sample(source),
            is_async: Sample::sample(source),
            command: Sample::sample(source),
            begin: Sample::sample(source),
            end: Sample::sample(source),
            stream: Sample::sample(source),
            graph: Sample::sample(source),
            node: Sample::sample(source),
            name: Sample::sample(source),
            grid_x: Sample::sample(source),
            grid_y: Sample::sample(source),
            grid_z: Sample::sample(source),
            block_x: Sample::sample(source),
            block_y: Sample::sample(source),
            block_z: Sample::sample(source),
            registers: Sample::sample(source),
            static_shared: Sample::sample(source),
            dynamic_shared: Sample::sample(source),
            local: Sample::sample(source),
            bytes: Sample::sample(source),
            value: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CreateArray {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            array: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
            depth: Sample::sample(source),
            format: Sample::sample(source),
            channels: Sample::sample(source),
            flags: Sample::sample(source),
            levels: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for DestroyArray {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { array: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for TakeLevel {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { of: Sample::sample(source), level: Sample::sample(source), array: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for OpenCollectives<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { settings: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for NewUniqueId {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for InitComm<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            comm: Sample::sample(source),
            ids: Sample::sample(source),
            ranks: Sample::sample(source),
            rank: Sample::sample(source),
            config: Sample::sample(source),
            name: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for SplitComm<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            comm: Sample::sample(source),
            child: Sample::sample(source),
            color: Sample::sample(source),
            key: Sample::sample(source),
            config: Sample::sample(source),
            name: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for ShrinkComm<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            comm: Sample::sample(source),
            child: Sample::sample(source),
            excluded: Sample::sample(source),
            flags: Sample::sample(source),
            config: Sample::sample(source),
            name: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CollectiveGroup {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { calls: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AskComm {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for EndComm {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source), how: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AbortComm {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CreateReduction<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            comm: Sample::sample(source),
            datatype: Sample::sample(source),
            value: Sample::sample(source),
            at: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for DestroyReduction {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source), operation: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for RegisterBuffer {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source), at: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for DeregisterBuffer {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source), handle: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for PeerPort<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { place: Sample::sample(source), port: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for NewGrowId {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for GrowComm<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            comm: Sample::sample(source),
            child: Sample::sample(source),
            id: Sample::sample(source),
            ranks: Sample::sample(source),
            rank: Sample::sample(source),
            config: Sample::sample(source),
            name: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for SuspendComm {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source), flags: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ReadCommMemory {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { comm: Sample::sample(source), stat: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SimulateGroup {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { calls: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ReadParameter<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { key: Sample::sample(source), form: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ListParameters {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for CollectiveCall {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            comm: Sample::sample(source),
            kind: Sample::sample(source),
            datatype: Sample::sample(source),
            operation: Sample::sample(source),
            rank: Sample::sample(source),
            count: Sample::sample(source),
            send: Sample::sample(source),
            receive: Sample::sample(source),
            stream: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CollectiveSetting<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { name: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SynchronizeContext {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for SetLimit {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { limit: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ResetContext {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for SetCacheConfig {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { what: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CopyToDevice<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), to: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CopyFromDevice {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), from: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CopyOnDevice {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            stream: Sample::sample(source),
            to: Sample::sample(source),
            from: Sample::sample(source),
            bytes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CopyBoxToDevice<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            stream: Sample::sample(source),
            to: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
            depth: Sample::sample(source),
            bytes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CopyBoxFromDevice {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            stream: Sample::sample(source),
            from: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
            depth: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CopyBoxOnDevice {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            stream: Sample::sample(source),
            to: Sample::sample(source),
            from: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
            depth: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Fill {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            stream: Sample::sample(source),
            at: Sample::sample(source),
            pitch: Sample::sample(source),
            element: Sample::sample(source),
            value: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CopyLate {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            stream: Sample::sample(source),
            function: Sample::sample(source),
            to: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for LateBytes<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { function: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CopyBulkToDevice {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), to: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Chunk<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { transfer: Sample::sample(source), offset: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for BoxEnd {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            array: Sample::sample(source),
            x: Sample::sample(source),
            y: Sample::sample(source),
            z: Sample::sample(source),
            at: Sample::sample(source),
            pitch: Sample::sample(source),
            slice: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CreateEvent {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { event: Sample::sample(source), flags: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for RecordEvent {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { event: Sample::sample(source), stream: Sample::sample(source), flags: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SynchronizeEvent {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { event: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for QueryEvent {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { event: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ElapsedTime {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { start: Sample::sample(source), end: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for DestroyEvent {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { event: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CreateGraph {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AddGraphKernel<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            graph: Sample::sample(source),
            after: Sample::sample(source),
            kernel: Sample::sample(source),
            grid_x: Sample::sample(source),
            grid_y: Sample::sample(source),
            grid_z: Sample::sample(source),
            block_x: Sample::sample(source),
            block_y: Sample::sample(source),
            block_z: Sample::sample(source),
            shared: Sample::sample(source),
            parameters: Sample::sample(source),
            attributes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for AddGraphCopy {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), after: Sample::sample(source), copy: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AddGraphFill {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), after: Sample::sample(source), fill: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AddGraphEmpty {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), after: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for InstantiateGraph {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), flags: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for LaunchGraph {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), stream: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for UploadGraph {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), stream: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SetGraphKernel<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            graph: Sample::sample(source),
            node: Sample::sample(source),
            kernel: Sample::sample(source),
            grid_x: Sample::sample(source),
            grid_y: Sample::sample(source),
            grid_z: Sample::sample(source),
            block_x: Sample::sample(source),
            block_y: Sample::sample(source),
            block_z: Sample::sample(source),
            shared: Sample::sample(source),
            parameters: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for SetGraphCopy {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), node: Sample::sample(source), copy: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SetGraphFill {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), node: Sample::sample(source), fill: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for EnableGraphNode {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), node: Sample::sample(source), enabled: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for UpdateGraph {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), new: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for DestroyGraph {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AddGraphWords {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), after: Sample::sample(source), operations: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SetGraphWords {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), node: Sample::sample(source), operations: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CreateGraphCondition {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { graph: Sample::sample(source), value: Sample::sample(source), flags: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AddGraphConditional {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            graph: Sample::sample(source),
            after: Sample::sample(source),
            handle: Sample::sample(source),
            kind: Sample::sample(source),
            bodies: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for GraphCopy {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            to: Sample::sample(source),
            to_pitch: Sample::sample(source),
            to_slice: Sample::sample(source),
            from: Sample::sample(source),
            from_pitch: Sample::sample(source),
            from_slice: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
            depth: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for GraphEdge {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { from: Sample::sample(source), port: Sample::sample(source), kind: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for GraphFill {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            at: Sample::sample(source),
            pitch: Sample::sample(source),
            element: Sample::sample(source),
            value: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Launch<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            kernel: Sample::sample(source),
            stream: Sample::sample(source),
            grid_x: Sample::sample(source),
            grid_y: Sample::sample(source),
            grid_z: Sample::sample(source),
            block_x: Sample::sample(source),
            block_y: Sample::sample(source),
            block_z: Sample::sample(source),
            shared: Sample::sample(source),
            parameters: Sample::sample(source),
            attributes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for HostFunction {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), function: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for HostFunctionDone {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { function: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MaxActiveBlocks {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            kernel: Sample::sample(source),
            block: Sample::sample(source),
            shared: Sample::sample(source),
            flags: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for AvailableShared {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { kernel: Sample::sample(source), blocks: Sample::sample(source), block: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ClusterOccupancy<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            what: Sample::sample(source),
            kernel: Sample::sample(source),
            grid_x: Sample::sample(source),
            grid_y: Sample::sample(source),
            grid_z: Sample::sample(source),
            block_x: Sample::sample(source),
            block_y: Sample::sample(source),
            block_z: Sample::sample(source),
            shared: Sample::sample(source),
            attributes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for LaunchAttribute<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { id: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for LibraryPart<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { library: Sample::sample(source), content: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for UnloadLibrary {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { library: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ListKernels {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { library: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for FindKernel<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { library: Sample::sample(source), name: Sample::sample(source), kernel: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for FindGlobal<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { library: Sample::sample(source), name: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SetKernelAttribute {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            kernel: Sample::sample(source),
            what: Sample::sample(source),
            number: Sample::sample(source),
            value: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for LoadLibrary<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            library: Sample::sample(source),
            kind: Sample::sample(source),
            contents: Sample::sample(source),
            at_once: Sample::sample(source),
            options: Sample::sample(source),
            log_bytes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Content<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { hash: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for JitOption {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { option: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Parameter {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { offset: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for LinkLibrary<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            library: Sample::sample(source),
            inputs: Sample::sample(source),
            contents: Sample::sample(source),
            options: Sample::sample(source),
            log_bytes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for ReadLinked {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { library: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for LinkInput<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { kind: Sample::sample(source), name: Sample::sample(source), options: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CreateBlock {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { block: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ReleaseBlock {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { block: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MapBlock {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            block: Sample::sample(source),
            offset: Sample::sample(source),
            at: Sample::sample(source),
            bytes: Sample::sample(source),
            access: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for SetAccess {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), bytes: Sample::sample(source), access: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for UnmapRange {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MemoryInfo {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for Migrate<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            session: Sample::sample(source),
            key: Sample::sample(source),
            gpu: Sample::sample(source),
            stop_and_copy: Sample::sample(source),
            patience_ms: Sample::sample(source),
            action: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CancelMigrate {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for Migrating {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            phase: Sample::sample(source),
            bytes: Sample::sample(source),
            of: Sample::sample(source),
            rounds: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for PhaseTime {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { phase: Sample::sample(source), microseconds: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MirrorMemory {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for UnmirrorMemory {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for WriteMirror<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), runs: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MirrorChanged<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), runs: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MirrorRun<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { offset: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Export<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            ticket: Sample::sample(source),
            key: Sample::sample(source),
            scope: Sample::sample(source),
            object: Sample::sample(source),
            uses: Sample::sample(source),
            seconds: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Withdraw {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { ticket: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ImportBlock<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            session: Sample::sample(source),
            ticket: Sample::sample(source),
            key: Sample::sample(source),
            object: Sample::sample(source),
            block: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CreateSignals {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { signals: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ImportSignals<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            session: Sample::sample(source),
            ticket: Sample::sample(source),
            key: Sample::sample(source),
            object: Sample::sample(source),
            signals: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for DropSignals {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { signals: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for RaiseSignal {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            signals: Sample::sample(source),
            word: Sample::sample(source),
            value: Sample::sample(source),
            event: Sample::sample(source),
            stream: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for AwaitSignal {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            stream: Sample::sample(source),
            signals: Sample::sample(source),
            word: Sample::sample(source),
            value: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for RecordSignal {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { signals: Sample::sample(source), recorded: Sample::sample(source), stream: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ReadSignals {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { signals: Sample::sample(source), first: Sample::sample(source), count: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for AskPeer {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { gpu: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ConnectPeer<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            link: Sample::sample(source),
            server: Sample::sample(source),
            session: Sample::sample(source),
            ticket: Sample::sample(source),
            key: Sample::sample(source),
            lanes: Sample::sample(source),
            sealed: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for DropPeer {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { link: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SendTo {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            link: Sample::sample(source),
            transfer: Sample::sample(source),
            stream: Sample::sample(source),
            from: Sample::sample(source),
            bytes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for ReceiveFrom {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            link: Sample::sample(source),
            transfer: Sample::sample(source),
            stream: Sample::sample(source),
            to: Sample::sample(source),
            bytes: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for PeerHello {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { magic: Sample::sample(source), version: Sample::sample(source), session: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for PeerTicket {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { ticket: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for PeerJoin {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { lane: Sample::sample(source), lanes: Sample::sample(source), sealed: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for PeerReady {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { transfer: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for PeerDone {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { transfer: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for RaiseNow {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { signals: Sample::sample(source), word: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Hello<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            magic: Sample::sample(source),
            oldest: Sample::sample(source),
            newest: Sample::sample(source),
            client: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Authenticate<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { nonce: Sample::sample(source), proof: Sample::sample(source), number: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ListGpus {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for ListSessions {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for Attach<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            gpu: Sample::sample(source),
            ordinal: Sample::sample(source),
            memory: Sample::sample(source),
            pid: Sample::sample(source),
            host: Sample::sample(source),
            program: Sample::sample(source),
            settings: Sample::sample(source),
            rings: Sample::sample(source),
            wait_ms: Sample::sample(source),
            share: Sample::sample(source),
            weight: Sample::sample(source),
            class: Sample::sample(source),
            time_ms: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Join<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { session: Sample::sample(source), key: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for UseRings {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Continue {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            epoch: Sample::sample(source),
            channel: Sample::sample(source),
            received: Sample::sample(source),
            digest: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Acknowledge {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { channel: Sample::sample(source), received: Sample::sample(source), digest: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Goodbye {
    fn sample(_source: &mut Source<'a>) -> Self {
        Self {}
    }
}

impl<'a> Sample<'a> for EndSession<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { session: Sample::sample(source), key: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Salt {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { word: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Heartbeat {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { asks: Sample::sample(source), answers: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Identify<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { challenge: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Reply<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            request: Sample::sample(source),
            status: Sample::sample(source),
            earlier: Sample::sample(source),
            detail: Sample::sample(source),
            body: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Ended<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { status: Sample::sample(source), detail: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Output<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { fd: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Delivery<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { request: Sample::sample(source), offset: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for RunHostFunction {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { function: Sample::sample(source), status: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Progress {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), sequence: Sample::sample(source), status: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for DeliveryFollows {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { request: Sample::sample(source), offset: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Waiting {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            ahead: Sample::sample(source),
            memory: Sample::sample(source),
            guarantee: Sample::sample(source),
            share: Sample::sample(source),
            free_share: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Attribute {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { number: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for DeviceSnapshot<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            name: Sample::sample(source),
            uuid: Sample::sample(source),
            pci_bus: Sample::sample(source),
            memory: Sample::sample(source),
            driver: Sample::sample(source),
            attributes: Sample::sample(source),
            limits: Sample::sample(source),
            priority_least: Sample::sample(source),
            priority_greatest: Sample::sample(source),
            granularity: Sample::sample(source),
            code: Sample::sample(source),
            fabric: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Gpu<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            index: Sample::sample(source),
            name: Sample::sample(source),
            uuid: Sample::sample(source),
            memory: Sample::sample(source),
            free: Sample::sample(source),
            guarantee: Sample::sample(source),
            kind: Sample::sample(source),
            driver: Sample::sample(source),
            compute_major: Sample::sample(source),
            compute_minor: Sample::sample(source),
            sessions: Sample::sample(source),
            share: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Limit {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { number: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SessionRow<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            session: Sample::sample(source),
            gpu: Sample::sample(source),
            client: Sample::sample(source),
            pid: Sample::sample(source),
            program: Sample::sample(source),
            memory: Sample::sample(source),
            used: Sample::sample(source),
            seconds: Sample::sample(source),
            worker: Sample::sample(source),
            transport: Sample::sample(source),
            guaranteed: Sample::sample(source),
            user: Sample::sample(source),
            share: Sample::sample(source),
            weight: Sample::sample(source),
            class: Sample::sample(source),
            gpu_ms: Sample::sample(source),
            of_ms: Sample::sample(source),
            moves: Sample::sample(source),
            received: Sample::sample(source),
            sent: Sample::sample(source),
            waits: Sample::sample(source),
            counted_ms: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for Setting<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { name: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ShareMemory {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MapShared {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for UnmapShared {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for ShareFile {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { at: Sample::sample(source), offset: Sample::sample(source), bytes: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CreateStream {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), flags: Sample::sample(source), priority: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for DestroyStream {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for WaitEvent {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), event: Sample::sample(source), flags: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SynchronizeStream {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for QueryStream {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CreateApartStream {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MemoryOperations {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { stream: Sample::sample(source), operations: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for MemoryOperation {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            operation: Sample::sample(source),
            at: Sample::sample(source),
            value: Sample::sample(source),
            flags: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for ReadTelemetry<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            host: Sample::sample(source),
            gpus: Sample::sample(source),
            slow: Sample::sample(source),
            lasting: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for GpuTelemetry<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            index: Sample::sample(source),
            name: Sample::sample(source),
            uuid: Sample::sample(source),
            pci_bus: Sample::sample(source),
            memory: Sample::sample(source),
            free: Sample::sample(source),
            compute_major: Sample::sample(source),
            compute_minor: Sample::sample(source),
            serial: Sample::sample(source),
            part: Sample::sample(source),
            firmware: Sample::sample(source),
            readings: Sample::sample(source),
            sessions: Sample::sample(source),
            links: Sample::sample(source),
            peers: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for LinkTelemetry<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { link: Sample::sample(source), remote: Sample::sample(source), readings: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for PeerTelemetry {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { index: Sample::sample(source), readings: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for Reading {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { number: Sample::sample(source), value: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SessionTelemetry {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            pid: Sample::sample(source),
            ordinal: Sample::sample(source),
            memory: Sample::sample(source),
            used: Sample::sample(source),
            readings: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for EncodeTensorMap {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            form: Sample::sample(source),
            data_type: Sample::sample(source),
            address: Sample::sample(source),
            dimensions: Sample::sample(source),
            strides: Sample::sample(source),
            element_strides: Sample::sample(source),
            box_dimensions: Sample::sample(source),
            lower: Sample::sample(source),
            upper: Sample::sample(source),
            channels: Sample::sample(source),
            pixels: Sample::sample(source),
            interleave: Sample::sample(source),
            mode: Sample::sample(source),
            swizzle: Sample::sample(source),
            promotion: Sample::sample(source),
            fill: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for CreateTexture {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            texture: Sample::sample(source),
            resource: Sample::sample(source),
            description: Sample::sample(source),
            view: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for DestroyTexture {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { texture: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for CreateSurface {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { surface: Sample::sample(source), array: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for DestroySurface {
    fn sample(source: &mut Source<'a>) -> Self {
        Self { surface: Sample::sample(source) }
    }
}

impl<'a> Sample<'a> for SetTextureReference<'a> {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            library: Sample::sample(source),
            name: Sample::sample(source),
            resource: Sample::sample(source),
            format: Sample::sample(source),
            channels: Sample::sample(source),
            description: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for TextureDescription {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            mode_x: Sample::sample(source),
            mode_y: Sample::sample(source),
            mode_z: Sample::sample(source),
            filter: Sample::sample(source),
            flags: Sample::sample(source),
            max_anisotropy: Sample::sample(source),
            level_filter: Sample::sample(source),
            level_bias: Sample::sample(source),
            least_level: Sample::sample(source),
            most_level: Sample::sample(source),
            border_r: Sample::sample(source),
            border_g: Sample::sample(source),
            border_b: Sample::sample(source),
            border_a: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for TextureResource {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            kind: Sample::sample(source),
            array: Sample::sample(source),
            at: Sample::sample(source),
            format: Sample::sample(source),
            channels: Sample::sample(source),
            extent: Sample::sample(source),
            height: Sample::sample(source),
            pitch: Sample::sample(source),
        }
    }
}

impl<'a> Sample<'a> for TextureView {
    fn sample(source: &mut Source<'a>) -> Self {
        Self {
            format: Sample::sample(source),
            width: Sample::sample(source),
            height: Sample::sample(source),
            depth: Sample::sample(source),
            first_level: Sample::sample(source),
            last_level: Sample::sample(source),
            first_layer: Sample::sample(source),
            last_layer: Sample::sample(source),
        }
    }
}

pub(crate) const REQUEST_SAMPLES: usize = 146;

pub(crate) fn request_sample<'a>(which: usize, source: &mut Source<'a>) -> Request<'a> {
    match which % REQUEST_SAMPLES {
        0 => Request::StartActivities(Sample::sample(source)),
        1 => Request::StopActivities(Sample::sample(source)),
        2 => Request::TakeActivities(Sample::sample(source)),
        3 => Request::AskActivityClock(Sample::sample(source)),
        4 => Request::CreateArray(Sample::sample(source)),
        5 => Request::DestroyArray(Sample::sample(source)),
        6 => Request::TakeLevel(Sample::sample(source)),
        7 => Request::OpenCollectives(Sample::sample(source)),
        8 => Request::NewUniqueId(Sample::sample(source)),
        9 => Request::InitComm(Sample::sample(source)),
        10 => Request::SplitComm(Sample::sample(source)),
        11 => Request::ShrinkComm(Sample::sample(source)),
        12 => Request::CollectiveGroup(Sample::sample(source)),
        13 => Request::AskComm(Sample::sample(source)),
        14 => Request::EndComm(Sample::sample(source)),
        15 => Request::AbortComm(Sample::sample(source)),
        16 => Request::CreateReduction(Sample::sample(source)),
        17 => Request::DestroyReduction(Sample::sample(source)),
        18 => Request::RegisterBuffer(Sample::sample(source)),
        19 => Request::DeregisterBuffer(Sample::sample(source)),
        20 => Request::PeerPort(Sample::sample(source)),
        21 => Request::NewGrowId(Sample::sample(source)),
        22 => Request::GrowComm(Sample::sample(source)),
        23 => Request::SuspendComm(Sample::sample(source)),
        24 => Request::ReadCommMemory(Sample::sample(source)),
        25 => Request::SimulateGroup(Sample::sample(source)),
        26 => Request::ReadParameter(Sample::sample(source)),
        27 => Request::ListParameters(Sample::sample(source)),
        28 => Request::SynchronizeContext(Sample::sample(source)),
        29 => Request::SetLimit(Sample::sample(source)),
        30 => Request::ResetContext(Sample::sample(source)),
        31 => Request::SetCacheConfig(Sample::sample(source)),
        32 => Request::CopyToDevice(Sample::sample(source)),
        33 => Request::CopyFromDevice(Sample::sample(source)),
        34 => Request::CopyOnDevice(Sample::sample(source)),
        35 => Request::CopyBoxToDevice(Sample::sample(source)),
        36 => Request::CopyBoxFromDevice(Sample::sample(source)),
        37 => Request::CopyBoxOnDevice(Sample::sample(source)),
        38 => Request::Fill(Sample::sample(source)),
        39 => Request::CopyLate(Sample::sample(source)),
        40 => Request::LateBytes(Sample::sample(source)),
        41 => Request::CopyBulkToDevice(Sample::sample(source)),
        42 => Request::Chunk(Sample::sample(source)),
        43 => Request::CreateEvent(Sample::sample(source)),
        44 => Request::RecordEvent(Sample::sample(source)),
        45 => Request::SynchronizeEvent(Sample::sample(source)),
        46 => Request::QueryEvent(Sample::sample(source)),
        47 => Request::ElapsedTime(Sample::sample(source)),
        48 => Request::DestroyEvent(Sample::sample(source)),
        49 => Request::CreateGraph(Sample::sample(source)),
        50 => Request::AddGraphKernel(Sample::sample(source)),
        51 => Request::AddGraphCopy(Sample::sample(source)),
        52 => Request::AddGraphFill(Sample::sample(source)),
        53 => Request::AddGraphEmpty(Sample::sample(source)),
        54 => Request::InstantiateGraph(Sample::sample(source)),
        55 => Request::LaunchGraph(Sample::sample(source)),
        56 => Request::UploadGraph(Sample::sample(source)),
        57 => Request::SetGraphKernel(Sample::sample(source)),
        58 => Request::SetGraphCopy(Sample::sample(source)),
        59 => Request::SetGraphFill(Sample::sample(source)),
        60 => Request::EnableGraphNode(Sample::sample(source)),
        61 => Request::UpdateGraph(Sample::sample(source)),
        62 => Request::DestroyGraph(Sample::sample(source)),
        63 => Request::AddGraphWords(Sample::sample(source)),
        64 => Request::SetGraphWords(Sample::sample(source)),
        65 => Request::CreateGraphCondition(Sample::sample(source)),
        66 => Request::AddGraphConditional(Sample::sample(source)),
        67 => Request::Launch(Sample::sample(source)),
        68 => Request::HostFunction(Sample::sample(source)),
        69 => Request::HostFunctionDone(Sample::sample(source)),
        70 => Request::MaxActiveBlocks(Sample::sample(source)),
        71 => Request::AvailableShared(Sample::sample(source)),
        72 => Request::ClusterOccupancy(Sample::sample(source)),
        73 => Request::LibraryPart(Sample::sample(source)),
        74 => Request::UnloadLibrary(Sample::sample(source)),
        75 => Request::ListKernels(Sample::sample(source)),
        76 => Request::FindKernel(Sample::sample(source)),
        77 => Request::FindGlobal(Sample::sample(source)),
        78 => Request::SetKernelAttribute(Sample::sample(source)),
        79 => Request::LoadLibrary(Sample::sample(source)),
        80 => Request::LinkLibrary(Sample::sample(source)),
        81 => Request::ReadLinked(Sample::sample(source)),
        82 => Request::CreateBlock(Sample::sample(source)),
        83 => Request::ReleaseBlock(Sample::sample(source)),
        84 => Request::MapBlock(Sample::sample(source)),
        85 => Request::SetAccess(Sample::sample(source)),
        86 => Request::UnmapRange(Sample::sample(source)),
        87 => Request::MemoryInfo(Sample::sample(source)),
        88 => Request::Migrate(Sample::sample(source)),
        89 => Request::CancelMigrate(Sample::sample(source)),
        90 => Request::MirrorMemory(Sample::sample(source)),
        91 => Request::UnmirrorMemory(Sample::sample(source)),
        92 => Request::WriteMirror(Sample::sample(source)),
        93 => Request::Export(Sample::sample(source)),
        94 => Request::Withdraw(Sample::sample(source)),
        95 => Request::ImportBlock(Sample::sample(source)),
        96 => Request::CreateSignals(Sample::sample(source)),
        97 => Request::ImportSignals(Sample::sample(source)),
        98 => Request::DropSignals(Sample::sample(source)),
        99 => Request::RaiseSignal(Sample::sample(source)),
        100 => Request::AwaitSignal(Sample::sample(source)),
        101 => Request::RecordSignal(Sample::sample(source)),
        102 => Request::ReadSignals(Sample::sample(source)),
        103 => Request::AskPeer(Sample::sample(source)),
        104 => Request::ConnectPeer(Sample::sample(source)),
        105 => Request::DropPeer(Sample::sample(source)),
        106 => Request::SendTo(Sample::sample(source)),
        107 => Request::ReceiveFrom(Sample::sample(source)),
        108 => Request::PeerHello(Sample::sample(source)),
        109 => Request::PeerTicket(Sample::sample(source)),
        110 => Request::PeerJoin(Sample::sample(source)),
        111 => Request::PeerReady(Sample::sample(source)),
        112 => Request::PeerDone(Sample::sample(source)),
        113 => Request::RaiseNow(Sample::sample(source)),
        114 => Request::Hello(Sample::sample(source)),
        115 => Request::Authenticate(Sample::sample(source)),
        116 => Request::ListGpus(Sample::sample(source)),
        117 => Request::ListSessions(Sample::sample(source)),
        118 => Request::Attach(Sample::sample(source)),
        119 => Request::Join(Sample::sample(source)),
        120 => Request::UseRings(Sample::sample(source)),
        121 => Request::Continue(Sample::sample(source)),
        122 => Request::Acknowledge(Sample::sample(source)),
        123 => Request::Goodbye(Sample::sample(source)),
        124 => Request::EndSession(Sample::sample(source)),
        125 => Request::Salt(Sample::sample(source)),
        126 => Request::Heartbeat(Sample::sample(source)),
        127 => Request::Identify(Sample::sample(source)),
        128 => Request::ShareMemory(Sample::sample(source)),
        129 => Request::MapShared(Sample::sample(source)),
        130 => Request::UnmapShared(Sample::sample(source)),
        131 => Request::ShareFile(Sample::sample(source)),
        132 => Request::CreateStream(Sample::sample(source)),
        133 => Request::DestroyStream(Sample::sample(source)),
        134 => Request::WaitEvent(Sample::sample(source)),
        135 => Request::SynchronizeStream(Sample::sample(source)),
        136 => Request::QueryStream(Sample::sample(source)),
        137 => Request::CreateApartStream(Sample::sample(source)),
        138 => Request::MemoryOperations(Sample::sample(source)),
        139 => Request::ReadTelemetry(Sample::sample(source)),
        140 => Request::EncodeTensorMap(Sample::sample(source)),
        141 => Request::CreateTexture(Sample::sample(source)),
        142 => Request::DestroyTexture(Sample::sample(source)),
        143 => Request::CreateSurface(Sample::sample(source)),
        144 => Request::DestroySurface(Sample::sample(source)),
        _ => Request::SetTextureReference(Sample::sample(source)),
    }
}

pub(crate) const PUSH_SAMPLES: usize = 10;

pub(crate) fn push_sample<'a>(which: usize, source: &mut Source<'a>) -> Push<'a> {
    match which % PUSH_SAMPLES {
        0 => Push::Migrating(Sample::sample(source)),
        1 => Push::MirrorChanged(Sample::sample(source)),
        2 => Push::Reply(Sample::sample(source)),
        3 => Push::Ended(Sample::sample(source)),
        4 => Push::Output(Sample::sample(source)),
        5 => Push::Delivery(Sample::sample(source)),
        6 => Push::RunHostFunction(Sample::sample(source)),
        7 => Push::Progress(Sample::sample(source)),
        8 => Push::DeliveryFollows(Sample::sample(source)),
        _ => Push::Waiting(Sample::sample(source)),
    }
}
