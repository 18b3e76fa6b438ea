//! The tasks of a goal: an ordered list that also finds by id. It owns that the two never disagree.

use alloc::vec::Vec;

use crate::ids::TaskId;
use crate::task::Task;

/// The tasks in plan order, found by id in logarithmic time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Vec<Task>"))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "Vec<Task>"))]
pub struct Tasks {
    list: Vec<Task>,
    /// Places in `list`, ordered by the ids that stand there.
    by_id: Vec<usize>,
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
        let mut by_id: Vec<usize> = (0..list.len()).collect();
        by_id.sort_by(|a, b| list[*a].id.cmp(&list[*b].id));
        let twice = by_id.windows(2).filter(|pair| list[pair[0]].id == list[pair[1]].id);
        // The first in plan order that repeats an earlier one; equal ids stand in plan order.
        match twice.map(|pair| pair[1]).min() {
            Some(at) => Err(DuplicateTask(list[at].id.clone())),
            None => Ok(Tasks { list, by_id }),
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
        match self.find(&task.id) {
            Ok(_) => Err(DuplicateTask(task.id)),
            Err(place) => {
                self.by_id.insert(place, self.list.len());
                self.list.push(task);
                Ok(())
            }
        }
    }
    fn find(&self, id: &TaskId) -> Result<usize, usize> {
        let place = self.by_id.binary_search_by(|at| self.list[*at].id.cmp(id))?;
        Ok(self.by_id[place])
    }
    /// The task of that name.
    #[must_use]
    pub fn get(&self, id: &TaskId) -> Option<&Task> {
        self.find(id).ok().map(|at| &self.list[at])
    }
    /// The task of that name, to be changed. Its id must stay.
    pub(crate) fn get_mut(&mut self, id: &TaskId) -> Option<&mut Task> {
        self.find(id).ok().map(|at| &mut self.list[at])
    }
    /// All tasks in plan order.
    pub fn iter(&self) -> core::slice::Iter<'_, Task> {
        self.list.iter()
    }
    /// All tasks in plan order, to be changed. Their ids must stay.
    pub(crate) fn iter_mut(&mut self) -> core::slice::IterMut<'_, Task> {
        self.list.iter_mut()
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
