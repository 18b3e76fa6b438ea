//! The tasks of a goal: an ordered list that finds by id and knows which tasks are open. It owns that the
//! three never disagree.

use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::hashed::HashedId;
use crate::ids::TaskId;
use crate::task::Task;
use crate::units::Map;

/// The tasks in plan order, found by id in logarithmic time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Vec<Task>"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "Vec<Task>"))]
pub struct Tasks {
    list: Vec<Task>,
    /// The place in `list` of each id.
    by_id: Map<HashedId, usize>,
    /// Places in `list` of the open tasks, ascending. A decision looks at these alone, over and over.
    open: Vec<usize>,
}

#[cfg(feature = "serde")]
impl serde::Serialize for Tasks {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(to)
    }
}

/// Two tasks with one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateTask(pub TaskId);

impl core::fmt::Display for DuplicateTask {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "task id {} is used twice", self.0)
    }
}

impl TryFrom<Vec<Task>> for Tasks {
    type Error = DuplicateTask;
    fn try_from(list: Vec<Task>) -> Result<Self, DuplicateTask> {
        let mut by_id = Map::new();
        for (at, task) in list.iter().enumerate() {
            if by_id.insert(HashedId::from(&task.id), at).is_some() {
                return Err(DuplicateTask(task.id.clone()));
            }
        }
        let open = open_of(&list);
        Ok(Tasks { list, by_id, open })
    }
}

/// The places of the open tasks.
fn open_of(list: &[Task]) -> Vec<usize> {
    list.iter().enumerate().filter_map(|(at, task)| task.is_open().then_some(at)).collect()
}

/// One task while it is changed: when it is let go, the list of open tasks follows.
#[derive(Debug)]
pub(crate) struct Changing<'a> {
    tasks: &'a mut Tasks,
    at: usize,
}

impl Deref for Changing<'_> {
    type Target = Task;
    fn deref(&self) -> &Task {
        &self.tasks.list[self.at]
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut Task {
        &mut self.tasks.list[self.at]
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let is_open = self.is_open();
        match self.tasks.open.binary_search(&self.at) {
            Err(place) if is_open => self.tasks.open.insert(place, self.at),
            Ok(place) if !is_open => drop(self.tasks.open.remove(place)),
            Ok(_) | Err(_) => {}
        }
    }
}

impl From<Tasks> for Vec<Task> {
    fn from(tasks: Tasks) -> Vec<Task> {
        tasks.list
    }
}

impl Tasks {
    /// Adds a task at the end of the plan.
    ///
    /// # Errors
    /// [`DuplicateTask`] when the id is taken.
    pub fn push(&mut self, task: Task) -> Result<(), DuplicateTask> {
        let Entry::Vacant(free) = self.by_id.entry(HashedId::from(&task.id)) else {
            return Err(DuplicateTask(task.id));
        };
        free.insert(self.list.len());
        if task.is_open() {
            self.open.push(self.list.len());
        }
        self.list.push(task);
        Ok(())
    }
    fn find(&self, id: &TaskId) -> Option<usize> {
        self.by_id.get(&HashedId::from(id)).copied()
    }
    /// The task of that name.
    #[must_use]
    pub fn get(&self, id: &TaskId) -> Option<&Task> {
        self.find(id).map(|at| &self.list[at])
    }
    /// The task of that name, to be changed. Its id must stay.
    pub(crate) fn get_mut(&mut self, id: &TaskId) -> Option<Changing<'_>> {
        self.find(id).map(|at| Changing { tasks: self, at })
    }
    /// All tasks in plan order.
    pub fn iter(&self) -> core::slice::Iter<'_, Task> {
        self.list.iter()
    }
    /// The open tasks in plan order: neither done nor dropped.
    pub fn open(&self) -> impl ExactSizeIterator<Item = &Task> {
        self.open.iter().map(|at| &self.list[*at])
    }
    /// Which of the open tasks it is, counted from 0 in plan order; none when it is not one of them.
    pub(crate) fn open_rank(&self, id: &TaskId) -> Option<usize> {
        self.open.binary_search(&self.find(id)?).ok()
    }
    /// Changes any of the tasks, in plan order. Their ids must stay.
    pub(crate) fn change_all(&mut self, change: impl FnMut(&mut Task)) {
        self.list.iter_mut().for_each(change);
        self.open = open_of(&self.list);
    }
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }
    /// None at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl<'a> IntoIterator for &'a Tasks {
    type Item = &'a Task;
    type IntoIter = core::slice::Iter<'a, Task>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}
