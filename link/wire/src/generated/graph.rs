//! Graphs: device work that is sent once and launched many times. The client adds node by node (a node's name is its place in the order of sending, from 0), then instantiates the graph. From then on the graph can be launched, and its nodes' work can be changed. Only device work is a node here. The client issues copies from and to the host, host functions and events on the stream between graphs.
//! Plain values and their encoding; they check nothing beyond what the types say.
// Made by `cargo xtask gen` from api/messages; edit the tables, not this file.

#[allow(unused_imports)]
use super::*;
#[allow(unused_imports)]
use crate::{
    ArrayId, BlockId, Call, Class, CommId, DecodeError, DevicePtr, EventId, Field, FunctionId, GraphId, Handler,
    KernelId, LibraryId, Message, PeerLinkId, Reader, SignalsId, StreamId, SurfaceId, TextureId, TicketId,
};

/// Makes a graph without nodes. A node that cannot be added fails the graph's instantiation, not a later call.
///
/// Kind 0x0a01, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateGraph {
    pub graph: GraphId,
}

impl<'a> Field<'a> for CreateGraph {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.graph.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")? })
    }
}

impl Message for CreateGraph {
    const KIND: u16 = 0x0a01;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "CreateGraph";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The next node launches a kernel, as `Launch` does. Attributes are those a node can have.
///
/// Kind 0x0a02, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddGraphKernel<'a> {
    pub graph: GraphId,
    pub after: Vec<GraphEdge>,
    pub kernel: KernelId,
    pub grid_x: u32,
    pub grid_y: u32,
    pub grid_z: u32,
    pub block_x: u32,
    pub block_y: u32,
    pub block_z: u32,
    pub shared: u32,
    pub parameters: &'a [u8],
    pub attributes: Vec<LaunchAttribute<'a>>,
}

impl<'a> Field<'a> for AddGraphKernel<'a> {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST
        + <Vec<GraphEdge> as Field<'a>>::LEAST
        + <KernelId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST
        + <Vec<LaunchAttribute<'a>> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.after.len()));
        for element in &self.after {
            element.write(out);
        }
        let room = crate::reader::room::<40>(out);
        room[0..8].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.grid_x.to_le_bytes());
        room[12..16].copy_from_slice(&self.grid_y.to_le_bytes());
        room[16..20].copy_from_slice(&self.grid_z.to_le_bytes());
        room[20..24].copy_from_slice(&self.block_x.to_le_bytes());
        room[24..28].copy_from_slice(&self.block_y.to_le_bytes());
        room[28..32].copy_from_slice(&self.block_z.to_le_bytes());
        room[32..36].copy_from_slice(&self.shared.to_le_bytes());
        room[36..40].copy_from_slice(&crate::reader::length_bytes(self.parameters.len()));
        out.extend_from_slice(self.parameters);
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.attributes.len()));
        for element in &self.attributes {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            graph: reader.field("graph")?,
            after: reader.field("after")?,
            kernel: reader.field("kernel")?,
            grid_x: reader.field("grid_x")?,
            grid_y: reader.field("grid_y")?,
            grid_z: reader.field("grid_z")?,
            block_x: reader.field("block_x")?,
            block_y: reader.field("block_y")?,
            block_z: reader.field("block_z")?,
            shared: reader.field("shared")?,
            parameters: reader.field("parameters")?,
            attributes: reader.field("attributes")?,
        })
    }
}

impl Message for AddGraphKernel<'_> {
    const KIND: u16 = 0x0a02;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "AddGraphKernel";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The next node copies a box within the device. A slice is a whole number of pitches.
///
/// Kind 0x0a03, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddGraphCopy {
    pub graph: GraphId,
    pub after: Vec<GraphEdge>,
    pub copy: GraphCopy,
}

impl<'a> Field<'a> for AddGraphCopy {
    const LEAST: usize =
        <GraphId as Field<'a>>::LEAST + <Vec<GraphEdge> as Field<'a>>::LEAST + <GraphCopy as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.after.len()));
        for element in &self.after {
            element.write(out);
        }
        self.copy.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, after: reader.field("after")?, copy: reader.field("copy")? })
    }
}

impl Message for AddGraphCopy {
    const KIND: u16 = 0x0a03;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "AddGraphCopy";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The next node sets memory, as `Fill` does.
///
/// Kind 0x0a04, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddGraphFill {
    pub graph: GraphId,
    pub after: Vec<GraphEdge>,
    pub fill: GraphFill,
}

impl<'a> Field<'a> for AddGraphFill {
    const LEAST: usize =
        <GraphId as Field<'a>>::LEAST + <Vec<GraphEdge> as Field<'a>>::LEAST + <GraphFill as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.after.len()));
        for element in &self.after {
            element.write(out);
        }
        self.fill.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, after: reader.field("after")?, fill: reader.field("fill")? })
    }
}

impl Message for AddGraphFill {
    const KIND: u16 = 0x0a04;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "AddGraphFill";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The next node does nothing: dependencies meet there.
///
/// Kind 0x0a05, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddGraphEmpty {
    pub graph: GraphId,
    pub after: Vec<GraphEdge>,
}

impl<'a> Field<'a> for AddGraphEmpty {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <Vec<GraphEdge> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.after.len()));
        for element in &self.after {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, after: reader.field("after")? })
    }
}

impl Message for AddGraphEmpty {
    const KIND: u16 = 0x0a05;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "AddGraphEmpty";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Makes the graph ready to be launched; no node can be added from then on. `flags` as cuGraphInstantiateWithFlags (4, kernels may launch it, and 8, kernels keep their nodes' priorities). `handle` is the number by which kernels launch it, else 0.
///
/// Kind 0x0a06, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InstantiateGraph {
    pub graph: GraphId,
    pub flags: u64,
}

impl<'a> Field<'a> for InstantiateGraph {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, flags: reader.field("flags")? })
    }
}

impl Message for InstantiateGraph {
    const KIND: u16 = 0x0a06;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "InstantiateGraph";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for InstantiateGraph {
    type Reply<'a> = InstantiateGraphReply;
}

/// What answers [`InstantiateGraph`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InstantiateGraphReply {
    pub handle: u64,
}

impl<'a> Field<'a> for InstantiateGraphReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.handle.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { handle: reader.field("handle")? })
    }
}

/// Runs the graph in stream order, after its earlier launches on any stream.
///
/// Kind 0x0a07, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaunchGraph {
    pub graph: GraphId,
    pub stream: StreamId,
}

impl<'a> Field<'a> for LaunchGraph {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.stream.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, stream: reader.field("stream")? })
    }
}

impl Message for LaunchGraph {
    const KIND: u16 = 0x0a07;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "LaunchGraph";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Brings the graph to the device ahead of its next launch.
///
/// Kind 0x0a08, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UploadGraph {
    pub graph: GraphId,
    pub stream: StreamId,
}

impl<'a> Field<'a> for UploadGraph {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <StreamId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.stream.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, stream: reader.field("stream")? })
    }
}

impl Message for UploadGraph {
    const KIND: u16 = 0x0a08;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "UploadGraph";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// From the next launch on, node `node` launches this. If the change fails, the graph can no longer be launched.
///
/// Kind 0x0a09, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SetGraphKernel<'a> {
    pub graph: GraphId,
    pub node: u32,
    pub kernel: KernelId,
    pub grid_x: u32,
    pub grid_y: u32,
    pub grid_z: u32,
    pub block_x: u32,
    pub block_y: u32,
    pub block_z: u32,
    pub shared: u32,
    pub parameters: &'a [u8],
}

impl<'a> Field<'a> for SetGraphKernel<'a> {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <KernelId as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <&'a [u8] as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<52>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.node.to_le_bytes());
        room[12..20].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[20..24].copy_from_slice(&self.grid_x.to_le_bytes());
        room[24..28].copy_from_slice(&self.grid_y.to_le_bytes());
        room[28..32].copy_from_slice(&self.grid_z.to_le_bytes());
        room[32..36].copy_from_slice(&self.block_x.to_le_bytes());
        room[36..40].copy_from_slice(&self.block_y.to_le_bytes());
        room[40..44].copy_from_slice(&self.block_z.to_le_bytes());
        room[44..48].copy_from_slice(&self.shared.to_le_bytes());
        room[48..52].copy_from_slice(&crate::reader::length_bytes(self.parameters.len()));
        out.extend_from_slice(self.parameters);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            graph: reader.field("graph")?,
            node: reader.field("node")?,
            kernel: reader.field("kernel")?,
            grid_x: reader.field("grid_x")?,
            grid_y: reader.field("grid_y")?,
            grid_z: reader.field("grid_z")?,
            block_x: reader.field("block_x")?,
            block_y: reader.field("block_y")?,
            block_z: reader.field("block_z")?,
            shared: reader.field("shared")?,
            parameters: reader.field("parameters")?,
        })
    }
}

impl Message for SetGraphKernel<'_> {
    const KIND: u16 = 0x0a09;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "SetGraphKernel";
    const TAIL: bool = true;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        let room = crate::reader::room::<52>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.node.to_le_bytes());
        room[12..20].copy_from_slice(&self.kernel.0.to_le_bytes());
        room[20..24].copy_from_slice(&self.grid_x.to_le_bytes());
        room[24..28].copy_from_slice(&self.grid_y.to_le_bytes());
        room[28..32].copy_from_slice(&self.grid_z.to_le_bytes());
        room[32..36].copy_from_slice(&self.block_x.to_le_bytes());
        room[36..40].copy_from_slice(&self.block_y.to_le_bytes());
        room[40..44].copy_from_slice(&self.block_z.to_le_bytes());
        room[44..48].copy_from_slice(&self.shared.to_le_bytes());
        room[48..52].copy_from_slice(&crate::reader::length_bytes(self.parameters.len()));
        self.parameters
    }
}

/// From the next launch on, node `node` copies this. As `SetGraphKernel`.
///
/// Kind 0x0a0a, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetGraphCopy {
    pub graph: GraphId,
    pub node: u32,
    pub copy: GraphCopy,
}

impl<'a> Field<'a> for SetGraphCopy {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <GraphCopy as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.node.to_le_bytes());
        self.copy.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, node: reader.field("node")?, copy: reader.field("copy")? })
    }
}

impl Message for SetGraphCopy {
    const KIND: u16 = 0x0a0a;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "SetGraphCopy";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// From the next launch on, node `node` sets this. As `SetGraphKernel`.
///
/// Kind 0x0a0b, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetGraphFill {
    pub graph: GraphId,
    pub node: u32,
    pub fill: GraphFill,
}

impl<'a> Field<'a> for SetGraphFill {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <GraphFill as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.node.to_le_bytes());
        self.fill.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, node: reader.field("node")?, fill: reader.field("fill")? })
    }
}

impl Message for SetGraphFill {
    const KIND: u16 = 0x0a0b;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "SetGraphFill";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// From the next launch on, node `node` does its work, or nothing. As `SetGraphKernel`.
///
/// Kind 0x0a0c, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EnableGraphNode {
    pub graph: GraphId,
    pub node: u32,
    pub enabled: bool,
}

impl<'a> Field<'a> for EnableGraphNode {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <bool as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<13>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.node.to_le_bytes());
        room[12..13].copy_from_slice(&[u8::from(self.enabled)]);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, node: reader.field("node")?, enabled: reader.field("enabled")? })
    }
}

impl Message for EnableGraphNode {
    const KIND: u16 = 0x0a0c;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "EnableGraphNode";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Gives the instantiated graph the work of `new`, a graph of the same shape that is not instantiated. `new` is gone after it. A refusal leaves the graph as it was.
///
/// Kind 0x0a0d, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UpdateGraph {
    pub graph: GraphId,
    pub new: GraphId,
}

impl<'a> Field<'a> for UpdateGraph {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <GraphId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.new.0.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, new: reader.field("new")? })
    }
}

impl Message for UpdateGraph {
    const KIND: u16 = 0x0a0d;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "UpdateGraph";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for UpdateGraph {
    type Reply<'a> = ();
}

/// Destroys the graph; its launches still complete.
///
/// Kind 0x0a0e, posted: no reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DestroyGraph {
    pub graph: GraphId,
}

impl<'a> Field<'a> for DestroyGraph {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.graph.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")? })
    }
}

impl Message for DestroyGraph {
    const KIND: u16 = 0x0a0e;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "DestroyGraph";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// The next node writes words of memory and waits for them, as `MemoryOperations` does.
///
/// Kind 0x0a0f, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddGraphWords {
    pub graph: GraphId,
    pub after: Vec<GraphEdge>,
    pub operations: Vec<MemoryOperation>,
}

impl<'a> Field<'a> for AddGraphWords {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST
        + <Vec<GraphEdge> as Field<'a>>::LEAST
        + <Vec<MemoryOperation> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.after.len()));
        for element in &self.after {
            element.write(out);
        }
        let room = crate::reader::room::<4>(out);
        room[0..4].copy_from_slice(&crate::reader::length_bytes(self.operations.len()));
        for element in &self.operations {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            graph: reader.field("graph")?,
            after: reader.field("after")?,
            operations: reader.field("operations")?,
        })
    }
}

impl Message for AddGraphWords {
    const KIND: u16 = 0x0a0f;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "AddGraphWords";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// From the next launch on, node `node` does this: the same operations on other words, with other values. As `SetGraphKernel`.
///
/// Kind 0x0a10, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetGraphWords {
    pub graph: GraphId,
    pub node: u32,
    pub operations: Vec<MemoryOperation>,
}

impl<'a> Field<'a> for SetGraphWords {
    const LEAST: usize =
        <GraphId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <Vec<MemoryOperation> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.node.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.operations.len()));
        for element in &self.operations {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, node: reader.field("node")?, operations: reader.field("operations")? })
    }
}

impl Message for SetGraphWords {
    const KIND: u16 = 0x0a10;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "SetGraphWords";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// Makes a conditional handle for a graph that is not instantiated: the number that its kernels set the value by, and that one conditional node has. `flags` as cuGraphConditionalHandleCreate (0, or 1: each launch begins with `value`). A session with one is not moved.
///
/// Kind 0x0a11, called: one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateGraphCondition {
    pub graph: GraphId,
    pub value: u32,
    pub flags: u32,
}

impl<'a> Field<'a> for CreateGraphCondition {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST + <u32 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&self.value.to_le_bytes());
        room[12..16].copy_from_slice(&self.flags.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { graph: reader.field("graph")?, value: reader.field("value")?, flags: reader.field("flags")? })
    }
}

impl Message for CreateGraphCondition {
    const KIND: u16 = 0x0a11;
    const CLASS: Class = Class::Call;
    const NAME: &'static str = "CreateGraphCondition";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

impl Call for CreateGraphCondition {
    type Reply<'a> = CreateGraphConditionReply;
}

/// What answers [`CreateGraphCondition`] when its status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CreateGraphConditionReply {
    pub handle: u64,
}

impl<'a> Field<'a> for CreateGraphConditionReply {
    const LEAST: usize = <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        self.handle.write(out);
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { handle: reader.field("handle")? })
    }
}

/// The next node runs one of `bodies` as the value of `handle` says; `kind` as CUgraphConditionalNodeType. The bodies are graphs without nodes, whose nodes are added as any graph's until `graph` is instantiated. They go with it, and are not instantiated, launched or destroyed on their own.
///
/// Kind 0x0a12, posted: no reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddGraphConditional {
    pub graph: GraphId,
    pub after: Vec<GraphEdge>,
    pub handle: u64,
    pub kind: u32,
    pub bodies: Vec<GraphId>,
}

impl<'a> Field<'a> for AddGraphConditional {
    const LEAST: usize = <GraphId as Field<'a>>::LEAST
        + <Vec<GraphEdge> as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <Vec<GraphId> as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<12>(out);
        room[0..8].copy_from_slice(&self.graph.0.to_le_bytes());
        room[8..12].copy_from_slice(&crate::reader::length_bytes(self.after.len()));
        for element in &self.after {
            element.write(out);
        }
        let room = crate::reader::room::<16>(out);
        room[0..8].copy_from_slice(&self.handle.to_le_bytes());
        room[8..12].copy_from_slice(&self.kind.to_le_bytes());
        room[12..16].copy_from_slice(&crate::reader::length_bytes(self.bodies.len()));
        for element in &self.bodies {
            element.write(out);
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            graph: reader.field("graph")?,
            after: reader.field("after")?,
            handle: reader.field("handle")?,
            kind: reader.field("kind")?,
            bodies: reader.field("bodies")?,
        })
    }
}

impl Message for AddGraphConditional {
    const KIND: u16 = 0x0a12;
    const CLASS: Class = Class::Post;
    const NAME: &'static str = "AddGraphConditional";
    const TAIL: bool = false;

    fn encode_head(&self, out: &mut Vec<u8>) -> &[u8] {
        self.write(out);
        &[]
    }
}

/// A copy of a box of device memory. Pitches are any for one row, slices any for one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphCopy {
    pub to: DevicePtr,
    pub to_pitch: u64,
    pub to_slice: u64,
    pub from: DevicePtr,
    pub from_pitch: u64,
    pub from_slice: u64,
    pub width: u64,
    pub height: u64,
    pub depth: u64,
}

impl<'a> Field<'a> for GraphCopy {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<72>(out);
        room[0..8].copy_from_slice(&self.to.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.to_pitch.to_le_bytes());
        room[16..24].copy_from_slice(&self.to_slice.to_le_bytes());
        room[24..32].copy_from_slice(&self.from.0.to_le_bytes());
        room[32..40].copy_from_slice(&self.from_pitch.to_le_bytes());
        room[40..48].copy_from_slice(&self.from_slice.to_le_bytes());
        room[48..56].copy_from_slice(&self.width.to_le_bytes());
        room[56..64].copy_from_slice(&self.height.to_le_bytes());
        room[64..72].copy_from_slice(&self.depth.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            to: reader.field("to")?,
            to_pitch: reader.field("to_pitch")?,
            to_slice: reader.field("to_slice")?,
            from: reader.field("from")?,
            from_pitch: reader.field("from_pitch")?,
            from_slice: reader.field("from_slice")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
            depth: reader.field("depth")?,
        })
    }
}

/// A dependency on an earlier node of the graph; `port` and `kind` as CUgraphEdgeData.from_port and .type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphEdge {
    pub from: u32,
    pub port: u8,
    pub kind: u8,
}

impl<'a> Field<'a> for GraphEdge {
    const LEAST: usize = <u32 as Field<'a>>::LEAST + <u8 as Field<'a>>::LEAST + <u8 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<6>(out);
        room[0..4].copy_from_slice(&self.from.to_le_bytes());
        room[4..5].copy_from_slice(&self.port.to_le_bytes());
        room[5..6].copy_from_slice(&self.kind.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { from: reader.field("from")?, port: reader.field("port")?, kind: reader.field("kind")? })
    }
}

/// Sets `height` rows of `width` elements of `element` bytes (1, 2 or 4) to `value`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphFill {
    pub at: DevicePtr,
    pub pitch: u64,
    pub element: u32,
    pub value: u32,
    pub width: u64,
    pub height: u64,
}

impl<'a> Field<'a> for GraphFill {
    const LEAST: usize = <DevicePtr as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u32 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST
        + <u64 as Field<'a>>::LEAST;

    fn write(&self, out: &mut Vec<u8>) {
        let room = crate::reader::room::<40>(out);
        room[0..8].copy_from_slice(&self.at.0.to_le_bytes());
        room[8..16].copy_from_slice(&self.pitch.to_le_bytes());
        room[16..20].copy_from_slice(&self.element.to_le_bytes());
        room[20..24].copy_from_slice(&self.value.to_le_bytes());
        room[24..32].copy_from_slice(&self.width.to_le_bytes());
        room[32..40].copy_from_slice(&self.height.to_le_bytes());
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            at: reader.field("at")?,
            pitch: reader.field("pitch")?,
            element: reader.field("element")?,
            value: reader.field("value")?,
            width: reader.field("width")?,
            height: reader.field("height")?,
        })
    }
}

/// Carries out the commands of this noun.
pub trait GraphRequests: Handler {
    /// Carries out [`CreateGraph`].
    ///
    /// # Errors
    /// The handler's.
    fn create_graph(&mut self, message: CreateGraph) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AddGraphKernel`].
    ///
    /// # Errors
    /// The handler's.
    fn add_graph_kernel(&mut self, message: &AddGraphKernel<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AddGraphCopy`].
    ///
    /// # Errors
    /// The handler's.
    fn add_graph_copy(&mut self, message: &AddGraphCopy) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AddGraphFill`].
    ///
    /// # Errors
    /// The handler's.
    fn add_graph_fill(&mut self, message: &AddGraphFill) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AddGraphEmpty`].
    ///
    /// # Errors
    /// The handler's.
    fn add_graph_empty(&mut self, message: &AddGraphEmpty) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`InstantiateGraph`].
    ///
    /// # Errors
    /// The handler's.
    fn instantiate_graph(&mut self, message: InstantiateGraph) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`LaunchGraph`].
    ///
    /// # Errors
    /// The handler's.
    fn launch_graph(&mut self, message: LaunchGraph) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`UploadGraph`].
    ///
    /// # Errors
    /// The handler's.
    fn upload_graph(&mut self, message: UploadGraph) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetGraphKernel`].
    ///
    /// # Errors
    /// The handler's.
    fn set_graph_kernel(&mut self, message: SetGraphKernel<'_>) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetGraphCopy`].
    ///
    /// # Errors
    /// The handler's.
    fn set_graph_copy(&mut self, message: &SetGraphCopy) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetGraphFill`].
    ///
    /// # Errors
    /// The handler's.
    fn set_graph_fill(&mut self, message: &SetGraphFill) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`EnableGraphNode`].
    ///
    /// # Errors
    /// The handler's.
    fn enable_graph_node(&mut self, message: EnableGraphNode) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`UpdateGraph`].
    ///
    /// # Errors
    /// The handler's.
    fn update_graph(&mut self, message: UpdateGraph) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`DestroyGraph`].
    ///
    /// # Errors
    /// The handler's.
    fn destroy_graph(&mut self, message: DestroyGraph) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AddGraphWords`].
    ///
    /// # Errors
    /// The handler's.
    fn add_graph_words(&mut self, message: &AddGraphWords) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`SetGraphWords`].
    ///
    /// # Errors
    /// The handler's.
    fn set_graph_words(&mut self, message: &SetGraphWords) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`CreateGraphCondition`].
    ///
    /// # Errors
    /// The handler's.
    fn create_graph_condition(&mut self, message: CreateGraphCondition) -> Result<Self::Answer, Self::Fault>;

    /// Carries out [`AddGraphConditional`].
    ///
    /// # Errors
    /// The handler's.
    fn add_graph_conditional(&mut self, message: &AddGraphConditional) -> Result<Self::Answer, Self::Fault>;
}
