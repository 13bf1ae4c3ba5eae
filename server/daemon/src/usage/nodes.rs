//! NCCL's nodes. To NCCL, ranks of one node talk over NVLink and have a GPU each; ranks of two nodes talk over sockets.
//! In: workers that make their first communicator, whose they are, their GPUs, and what tells which ranks belong together.
//! Out: the node of each, by a name that NCCL compares.
//! It is pure. Workers of one node have one user, so the driver lets them open each other's memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use floe_lock::lock;
use floe_users::Name;
use floe_worker::contract::NodeWish;

/// Whose a node is. All who have no name count as one user.
type Whose = Option<Name>;

/// A node's members, by PCI bus id of their GPUs, with what each wished.
#[derive(Debug)]
struct Node {
    whose: Whose,
    members: BTreeMap<String, NodeWish>,
}

#[derive(Debug, Default)]
struct Table {
    by_number: BTreeMap<u64, Node>,
    last: u64,
}

/// The nodes of a daemon.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    /// Random bytes that tell the daemon's nodes from all others.
    identity: [u8; 16],
    table: Arc<Mutex<Table>>,
}

/// A worker's place in a node. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct NodePlace {
    nodes: Nodes,
    number: u64,
    gpu: String,
}

/// In the node that a worker belongs to, another has its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crowded;

impl Nodes {
    pub(crate) fn new(identity: [u8; 16]) -> Self {
        Self { identity, table: Arc::default() }
    }

    /// A place in a node with ranks of the same communicator, else of the same job, else in a new one.
    ///
    /// # Errors
    /// [`Crowded`], if the wish is to wait then; otherwise it is another node.
    pub(crate) fn join(&self, whose: Whose, gpu: &str, wish: NodeWish) -> Result<NodePlace, Crowded> {
        let gpu = gpu.to_ascii_lowercase();
        let mut table = lock(&self.table);
        let own = || table.by_number.iter().filter(|(_, node)| node.whose == whose);
        let of_comm = |node: &Node| node.members.values().any(|other| other.key == wish.key);
        let of_job = |node: &Node| wish.job.is_some() && node.members.values().any(|other| other.job == wish.job);
        let is_free = |node: &Node| !node.members.contains_key(&gpu);
        let beside_comm = own().find(|(_, node)| of_comm(node) && is_free(node));
        let number = match beside_comm.or_else(|| own().find(|(_, node)| of_job(node) && is_free(node))) {
            Some((number, _)) => *number,
            None if wish.waits && own().any(|(_, node)| of_comm(node) || of_job(node)) => return Err(Crowded),
            None => table.last + 1,
        };
        table.last = table.last.max(number);
        let node = table.by_number.entry(number).or_insert_with(|| Node { whose, members: BTreeMap::new() });
        node.members.insert(gpu.clone(), wish);
        Ok(NodePlace { nodes: self.clone(), number, gpu })
    }
}

impl NodePlace {
    /// The node's name.
    pub(crate) fn name(&self) -> String {
        format!("floe-{:032x}-{}", u128::from_be_bytes(self.nodes.identity), self.number)
    }
}

impl Drop for NodePlace {
    fn drop(&mut self) {
        let nodes = &mut lock(&self.nodes.table).by_number;
        if let Some(node) = nodes.get_mut(&self.number) {
            node.members.remove(&self.gpu);
            if node.members.is_empty() {
                nodes.remove(&self.number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn of(key: u64, job: Option<u64>) -> NodeWish {
        NodeWish { request: 1, key, job, waits: false }
    }

    #[test]
    fn ranks_of_a_communicator_are_one_node_and_others_another() {
        let nodes = Nodes::new([7; 16]);
        let join = |gpu: &str, key| nodes.join(None, gpu, of(key, None)).unwrap();
        let (one, other, apart) = (join("0000:1A:00.0", 5), join("0000:3b:00.0", 5), join("0000:5e:00.0", 6));
        assert_eq!(one.name(), other.name());
        assert_ne!(one.name(), apart.name());
        let [same, second] = ["0000:1a:00.0", "0000:3b:00.0"].map(|gpu| join(gpu, 5));
        assert_ne!(one.name(), same.name(), "NCCL has no two ranks of a node on one GPU");
        assert_eq!(same.name(), second.name());
    }

    #[test]
    fn ranks_of_a_job_are_one_node_whatever_communicator_they_make_first() {
        let nodes = Nodes::new([7; 16]);
        let all = [("0", 5), ("1", 5), ("2", 6), ("3", 6)];
        let all = all.map(|(gpu, key)| nodes.join(None, gpu, of(key, Some(1))).unwrap());
        assert!(all.iter().all(|place| place.name() == all[0].name()));
        let other_job = nodes.join(None, "4", of(7, Some(2))).unwrap();
        assert_ne!(other_job.name(), all[0].name());
    }

    #[test]
    fn who_wishes_to_wait_is_told_that_its_gpu_is_taken_and_comes_in_when_it_is_free() {
        let nodes = Nodes::new([7; 16]);
        let stays = nodes.join(None, "0", of(5, Some(1))).unwrap();
        let leaves = nodes.join(None, "1", of(5, Some(1))).unwrap();
        let wish = NodeWish { waits: true, ..of(6, Some(1)) };
        assert_eq!(nodes.join(None, "1", wish).unwrap_err(), Crowded);
        drop(leaves);
        assert_eq!(nodes.join(None, "1", wish).unwrap().name(), stays.name());
        drop(stays);
        assert!(lock(&nodes.table).by_number.is_empty());
    }

    #[test]
    fn users_and_daemons_share_no_node() {
        let (nodes, others) = (Nodes::new([7; 16]), Nodes::new([8; 16]));
        let wish = of(5, Some(1));
        let ann = Name::new("ann").ok();
        let all = [nodes.join(None, "0", wish), nodes.join(ann, "1", wish), others.join(None, "2", wish)];
        let names: std::collections::BTreeSet<String> = all.iter().map(|it| it.as_ref().unwrap().name()).collect();
        assert_eq!(names.len(), all.len());
    }
}
