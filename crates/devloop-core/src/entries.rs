//! The entries of a book by dispatch, found by lineage too. It owns that the two never disagree.

use alloc::vec::Vec;
use core::ops::Deref;

use crate::hashed::HashedId;
use crate::ids::{DispatchId, TaskId};
use crate::ledger::{Entry, LineageSum};
use crate::units::Map;

/// Entries by dispatch. Reads like the map it is; whose entry belongs to which lineage is kept beside it, and
/// made anew when a document is opened, so that a decision asks for one task without a walk over the book.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Map<DispatchId, Entry>"))]
pub struct Entries {
    by_dispatch: Map<DispatchId, Entry>,
    /// The dispatches of each lineage that has any, in their order.
    by_lineage: Map<HashedId, Vec<DispatchId>>,
}

#[cfg(feature = "serde")]
impl serde::Serialize for Entries {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.by_dispatch.serialize(to)
    }
}

impl From<Map<DispatchId, Entry>> for Entries {
    fn from(by_dispatch: Map<DispatchId, Entry>) -> Entries {
        let mut by_lineage: Map<HashedId, Vec<DispatchId>> = Map::new();
        for (dispatch, entry) in &by_dispatch {
            let Some(lineage) = &entry.lineage else { continue };
            by_lineage.entry(lineage.into()).or_default().push(*dispatch);
        }
        Entries { by_dispatch, by_lineage }
    }
}

impl FromIterator<(DispatchId, Entry)> for Entries {
    fn from_iter<I: IntoIterator<Item = (DispatchId, Entry)>>(entries: I) -> Entries {
        entries.into_iter().collect::<Map<_, _>>().into()
    }
}

impl IntoIterator for Entries {
    type Item = (DispatchId, Entry);
    type IntoIter = alloc::collections::btree_map::IntoIter<DispatchId, Entry>;
    fn into_iter(self) -> Self::IntoIter {
        self.by_dispatch.into_iter()
    }
}

impl<'a> IntoIterator for &'a Entries {
    type Item = (&'a DispatchId, &'a Entry);
    type IntoIter = alloc::collections::btree_map::Iter<'a, DispatchId, Entry>;
    fn into_iter(self) -> Self::IntoIter {
        self.by_dispatch.iter()
    }
}

impl Deref for Entries {
    type Target = Map<DispatchId, Entry>;
    fn deref(&self) -> &Map<DispatchId, Entry> {
        &self.by_dispatch
    }
}

impl Entries {
    /// Books an entry; gives back the one that stood there before.
    pub fn insert(&mut self, dispatch: DispatchId, entry: Entry) -> Option<Entry> {
        let old = self.remove(&dispatch);
        if let Some(lineage) = &entry.lineage {
            let own = self.by_lineage.entry(lineage.into()).or_default();
            if let Err(place) = own.binary_search(&dispatch) {
                own.insert(place, dispatch);
            }
        }
        self.by_dispatch.insert(dispatch, entry);
        old
    }

    /// Takes an entry out.
    pub fn remove(&mut self, dispatch: &DispatchId) -> Option<Entry> {
        let old = self.by_dispatch.remove(dispatch)?;
        if let Some(lineage) = old.lineage.as_ref().map(HashedId::from)
            && let Some(own) = self.by_lineage.get_mut(&lineage)
        {
            own.retain(|one| one != dispatch);
            if own.is_empty() {
                self.by_lineage.remove(&lineage);
            }
        }
        Some(old)
    }

    /// Changes the entry of that dispatch; false when there is none.
    pub fn change(&mut self, dispatch: &DispatchId, change: impl FnOnce(&mut Entry)) -> bool {
        let Some(entry) = self.by_dispatch.get_mut(dispatch) else { return false };
        let before = entry.lineage.clone();
        change(entry);
        if entry.lineage != before {
            *self = core::mem::take(&mut self.by_dispatch).into();
        }
        true
    }

    /// Changes every entry, in the order of their dispatches.
    pub fn change_all(&mut self, mut change: impl FnMut(&mut Entry)) {
        self.retain(|_, entry| {
            change(entry);
            true
        });
    }

    /// Keeps the entries that `keep` accepts.
    pub fn retain(&mut self, keep: impl FnMut(&DispatchId, &mut Entry) -> bool) {
        self.by_dispatch.retain(keep);
        *self = core::mem::take(&mut self.by_dispatch).into();
    }

    /// Takes all entries out.
    pub fn clear(&mut self) {
        *self = Entries::default();
    }

    /// What the lineage cost so far: as many steps as it has dispatches.
    #[must_use]
    pub fn of_lineage(&self, lineage: &TaskId) -> LineageSum {
        let mut sum = LineageSum::default();
        let own = self.by_lineage.get(&lineage.into()).into_iter().flatten();
        for entry in own.filter_map(|dispatch| self.by_dispatch.get(dispatch)) {
            sum.spend.add(entry.certainty, entry.amount);
            sum.tokens = sum.tokens.saturating_add(entry.tokens.total());
        }
        sum
    }
}
