//! In which order completed tasks are done.
//! In: tasks, those of one lane in the order in which they complete. Out: one task at a time, when it has completed.
//! A task comes out only after every completed task of a lower sequence at the head of its lane.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use floe_abi::CudaResult;
use floe_device::Device;

use super::task::{Lane, Task};
use crate::complete::events::CompletionEvent;

/// Tasks that wait.
pub(crate) struct Order<D: Device> {
    lanes: BTreeMap<Lane, VecDeque<Task<D>>>,
    /// The completion event of the task that came out last: the next often waits for the same.
    last: Option<(Arc<CompletionEvent<D>>, CudaResult<()>)>,
}

impl<D: Device> Default for Order<D> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), last: None }
    }
}

impl<D: Device> Order<D> {
    pub(crate) fn push(&mut self, task: Task<D>) {
        let tasks = self.lanes.entry(task.lane).or_default();
        let place = tasks.partition_point(|other| other.reported() <= task.reported());
        tasks.insert(place, task);
    }

    pub(crate) fn extend(&mut self, tasks: impl IntoIterator<Item = Task<D>>) {
        tasks.into_iter().for_each(|task| self.push(task));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The next task that has completed, with how its work ended. Once there is none, every completion event is queried
    /// again: a context that is beyond use shows in any of them.
    pub(crate) fn next(&mut self) -> Option<(Task<D>, CudaResult<()>)> {
        let next = self.next_completed();
        if next.is_none() {
            self.last = None;
        }
        next
    }

    fn next_completed(&mut self) -> Option<(Task<D>, CudaResult<()>)> {
        let (mut lane, mut sequence, mut outcome) = self.completed_below(u64::MAX)?;
        // Looked at again after the found one had completed: work it depended on shows as completed now.
        while let Some((lower, its_sequence, its_outcome)) = self.completed_below(sequence) {
            (lane, sequence, outcome) = (lower, its_sequence, its_outcome);
        }
        let tasks = self.lanes.get_mut(&lane)?;
        let task = tasks.pop_front()?;
        self.last = if let [completion] = &*task.completions { Some((Arc::clone(completion), outcome)) } else { None };
        if tasks.is_empty() {
            self.lanes.remove(&lane);
        }
        Some((task, outcome))
    }

    /// A head of a lane that has completed and whose sequence is below `limit`.
    fn completed_below(&self, limit: u64) -> Option<(Lane, u64, CudaResult<()>)> {
        // Those alone come last, by their sequences.
        self.lanes.range(..=Lane::Alone(limit)).find_map(|(lane, tasks)| {
            let head = tasks.front()?;
            let outcome = (head.sequence < limit).then(|| self.outcome(head)).flatten()?;
            Some((*lane, head.sequence, outcome))
        })
    }

    fn outcome(&self, task: &Task<D>) -> Option<CudaResult<()>> {
        task.outcome(|completion| match &self.last {
            Some((last, outcome)) if Arc::ptr_eq(last, completion) => Some(*outcome),
            _ => completion.outcome(),
        })
    }
}
