//! Owns the two conversion traits and their leaves: numbers, names, lists. It must not know a single binding.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use devloop_core::ids::{Branch, Digest, DispatchId, FindingId, Identity, Oid, RouteKey, TaskId};
use devloop_core::units::{ActiveMs, Day, UsdMicros, WallMs};

/// A value that came over the boundary and is no value of the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where, from the outside in, for example `holds[3].key`; empty for the value itself.
    pub field: String,
    /// What is wrong, one sentence without a full stop.
    pub rule: String,
}

impl Refused {
    /// A refusal of the value itself.
    pub fn new(rule: impl fmt::Display) -> Self {
        Self { field: String::new(), rule: rule.to_string() }
    }

    /// The same refusal, seen from the parent that holds the value in `name`.
    #[must_use]
    pub fn within(mut self, name: &str) -> Self {
        self.field = match self.field.chars().next() {
            None => name.to_string(),
            Some('[') => format!("{name}{}", self.field),
            Some(_) => format!("{name}.{}", self.field),
        };
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.rule)
        } else {
            write!(f, "{}: {}", self.field, self.rule)
        }
    }
}

impl core::error::Error for Refused {}

/// A value of the domain on its way out: always possible.
pub trait IntoWit<W> {
    /// Converts.
    fn into_wit(self) -> W;
}

/// A value of the bindings on its way in: names are checked again, because the other side is not trusted.
pub trait IntoDomain<T> {
    /// Converts.
    ///
    /// # Errors
    /// [`Refused`] with the field that holds no value of the domain.
    fn into_domain(self) -> Result<T, Refused>;
}

macro_rules! same {
    ($($kind:ty),+) => {$(
        impl IntoWit<$kind> for $kind {
            fn into_wit(self) -> $kind {
                self
            }
        }
        impl IntoDomain<$kind> for $kind {
            fn into_domain(self) -> Result<$kind, Refused> {
                Ok(self)
            }
        }
    )+};
}
same!(bool, u8, u16, u32, u64, i64, String, crate::Step, crate::Replayed);

macro_rules! names {
    ($($name:ty),+) => {$(
        impl IntoWit<String> for $name {
            fn into_wit(self) -> String {
                self.into()
            }
        }
        impl IntoDomain<$name> for String {
            fn into_domain(self) -> Result<$name, Refused> {
                <$name>::try_from(self).map_err(Refused::new)
            }
        }
    )+};
}
names!(TaskId, Oid, Digest, RouteKey, Identity, Branch);

macro_rules! numbers {
    ($kind:ty: $($name:ident),+) => {$(
        impl IntoWit<$kind> for $name {
            fn into_wit(self) -> $kind {
                self.0
            }
        }
        impl IntoDomain<$name> for $kind {
            fn into_domain(self) -> Result<$name, Refused> {
                Ok($name(self))
            }
        }
    )+};
}
numbers!(u64: DispatchId, WallMs, ActiveMs, UsdMicros, Day);
numbers!(u32: FindingId);

impl<W, T: IntoWit<W>> IntoWit<W> for Box<T> {
    fn into_wit(self) -> W {
        (*self).into_wit()
    }
}

impl<W, T: IntoWit<W>> IntoWit<Option<W>> for Option<T> {
    fn into_wit(self) -> Option<W> {
        self.map(IntoWit::into_wit)
    }
}

impl<T, W: IntoDomain<T>> IntoDomain<Option<T>> for Option<W> {
    fn into_domain(self) -> Result<Option<T>, Refused> {
        self.map(IntoDomain::into_domain).transpose()
    }
}

impl<W, T: IntoWit<W>> IntoWit<Vec<W>> for Vec<T> {
    fn into_wit(self) -> Vec<W> {
        self.into_iter().map(IntoWit::into_wit).collect()
    }
}

impl<T, W: IntoDomain<T>> IntoDomain<Vec<T>> for Vec<W> {
    fn into_domain(self) -> Result<Vec<T>, Refused> {
        let one = |(at, value): (usize, W)| value.into_domain().map_err(|e| e.within(&format!("[{at}]")));
        self.into_iter().enumerate().map(one).collect()
    }
}

impl<W, T: IntoWit<W>> IntoWit<Vec<W>> for BTreeSet<T> {
    fn into_wit(self) -> Vec<W> {
        self.into_iter().map(IntoWit::into_wit).collect()
    }
}

/// A set crosses as a list; the same member twice is refused, for no set ever sends that.
impl<T: Ord, W: IntoDomain<T>> IntoDomain<BTreeSet<T>> for Vec<W> {
    fn into_domain(self) -> Result<BTreeSet<T>, Refused> {
        let list: Vec<T> = self.into_domain()?;
        let length = list.len();
        let set: BTreeSet<T> = list.into_iter().collect();
        if set.len() == length { Ok(set) } else { Err(Refused::new("a member stands in the set twice")) }
    }
}

impl<WK, WV, K: IntoWit<WK>, V: IntoWit<WV>> IntoWit<Vec<(WK, WV)>> for BTreeMap<K, V> {
    fn into_wit(self) -> Vec<(WK, WV)> {
        self.into_iter().map(IntoWit::into_wit).collect()
    }
}

/// A map crosses as a list of pairs; the same key twice is refused.
impl<K: Ord, V, WK: IntoDomain<K>, WV: IntoDomain<V>> IntoDomain<BTreeMap<K, V>> for Vec<(WK, WV)> {
    fn into_domain(self) -> Result<BTreeMap<K, V>, Refused> {
        let list: Vec<(K, V)> = self.into_domain()?;
        let length = list.len();
        let map: BTreeMap<K, V> = list.into_iter().collect();
        if map.len() == length { Ok(map) } else { Err(Refused::new("a key stands in the map twice")) }
    }
}

impl<WA, WB, A: IntoWit<WA>, B: IntoWit<WB>> IntoWit<(WA, WB)> for (A, B) {
    fn into_wit(self) -> (WA, WB) {
        (self.0.into_wit(), self.1.into_wit())
    }
}

impl<A, B, WA: IntoDomain<A>, WB: IntoDomain<B>> IntoDomain<(A, B)> for (WA, WB) {
    fn into_domain(self) -> Result<(A, B), Refused> {
        let first = self.0.into_domain().map_err(|e| e.within("0"))?;
        Ok((first, self.1.into_domain().map_err(|e| e.within("1"))?))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_refusal_names_the_field_from_the_outside_in() {
        let bad: Result<Vec<TaskId>, Refused> = vec!["ok".to_string(), "a/b".to_string()].into_domain();
        let refused = bad.expect_err("a slash is no part of a task id").within("depends-on").within("tasks");
        assert_eq!(refused.field, "tasks.depends-on[1]");
        assert!(refused.to_string().starts_with("tasks.depends-on[1]: a task id must be"), "{refused}");
    }

    #[test]
    fn sets_and_maps_refuse_what_no_set_or_map_sends() {
        let twice: Result<BTreeSet<u64>, Refused> = vec![1_u64, 2, 1].into_domain();
        assert!(twice.is_err());
        let set: BTreeSet<u64> = vec![2_u64, 1].into_domain().expect("two members");
        assert_eq!(IntoWit::<Vec<u64>>::into_wit(set), vec![1, 2]);
        let twice: Result<BTreeMap<u64, u64>, Refused> = vec![(1_u64, 2_u64), (1, 3)].into_domain();
        assert!(twice.is_err());
        let map: BTreeMap<u64, u64> = vec![(2_u64, 2_u64), (1, 3)].into_domain().expect("two keys");
        assert_eq!(IntoWit::<Vec<(u64, u64)>>::into_wit(map), vec![(1, 3), (2, 2)]);
    }
}
