//! The count of tasks that are not done.
//! In: tasks that begin and end. Out: whether there is none, and a wait for that. It knows nothing of a task.

use std::sync::{Condvar, Mutex, MutexGuard};

/// The tasks that are not done, and the threads that wait until there is none.
#[derive(Default)]
pub(super) struct Open {
    tasks: Mutex<OpenTasks>,
    none: Condvar,
}

#[derive(Default)]
pub(super) struct OpenTasks {
    pub(super) count: usize,
    /// Waking nobody is a system call, too.
    waiting: usize,
}

impl Open {
    pub(super) fn tasks(&self) -> MutexGuard<'_, OpenTasks> {
        floe_lock::lock(&self.tasks)
    }

    pub(super) fn change(&self, by: isize) {
        let mut tasks = self.tasks();
        tasks.count = tasks.count.saturating_add_signed(by);
        if tasks.count == 0 && tasks.waiting > 0 {
            self.none.notify_all();
        }
    }

    pub(super) fn wait_for_none(&self) {
        let mut tasks = self.tasks();
        tasks.waiting += 1;
        while tasks.count > 0 {
            tasks = floe_lock::wait(&self.none, tasks);
        }
        tasks.waiting -= 1;
    }
}
