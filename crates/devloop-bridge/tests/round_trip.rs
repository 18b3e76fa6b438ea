//! Every type of the alphabet goes out and comes back unchanged: each case of each enum, wherever it is
//! nested. The walk over the shapes is the bridge's own, so a new case is tried without being named here.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use devloop_bridge::{CoreError, IntoDomain, IntoWit, Replayed, Step};
use devloop_core::decide::{Decision, Input};
use devloop_core::effect::Effect;
use devloop_core::event::Event;
use devloop_core::ids::{Branch, Digest, DispatchId, FindingId, Identity, Oid, RouteKey, TaskId};
use devloop_core::question::Question;
use devloop_core::reason::Reason;
use devloop_core::units::{ActiveMs, Day, UsdMicros, WallMs};

#[allow(clippy::all, missing_debug_implementations, dead_code, reason = "generated code")]
mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "core" });
}

devloop_bridge::bridge!(crate::bindings::devloop::core::types);

/// A few values of a type which together contain every case of every enum in it.
trait Samples: Sized {
    fn samples() -> Vec<Self>;
}

macro_rules! leaves {
    ($($kind:ty: $($value:expr),+;)+) => {$(
        impl Samples for $kind {
            fn samples() -> Vec<Self> {
                vec![$($value),+]
            }
        }
    )+};
}

leaves! {
    bool: true, false;
    u8: 0, 255;
    u32: 0, u32::MAX;
    u64: 0, u64::MAX;
    String: String::new(), "a text, \u{e9} and \u{1f600}\0".to_string();
    TaskId: TaskId::parse("task-1").expect("valid"), TaskId::parse("__proto__").expect("valid");
    Oid: Oid::parse(&"a".repeat(40)).expect("valid"), Oid::parse(&"0".repeat(64)).expect("valid");
    Digest: Digest::parse(&"f".repeat(64)).expect("valid");
    RouteKey: RouteKey::parse("worker").expect("valid"), RouteKey::parse("x:y/z").expect("valid");
    Identity: Identity::parse("vendor/model").expect("valid"), Identity::parse("other/model").expect("valid");
    Branch: Branch::parse("devloop/goal-1").expect("valid");
    DispatchId: DispatchId(0), DispatchId(u64::MAX);
    FindingId: FindingId(0), FindingId(u32::MAX);
    WallMs: WallMs(0), WallMs(u64::MAX);
    ActiveMs: ActiveMs(0), ActiveMs(u64::MAX);
    UsdMicros: UsdMicros(0), UsdMicros(u64::MAX);
    Day: Day(0), Day(u64::MAX);
}

impl<T: Samples> Samples for Option<T> {
    fn samples() -> Vec<Self> {
        std::iter::once(None).chain(T::samples().into_iter().map(Some)).collect()
    }
}

impl<T: Samples> Samples for Box<T> {
    fn samples() -> Vec<Self> {
        T::samples().into_iter().map(Box::new).collect()
    }
}

impl<T: Samples> Samples for Vec<T> {
    fn samples() -> Vec<Self> {
        vec![Vec::new(), T::samples()]
    }
}

impl<T: Samples + Ord> Samples for BTreeSet<T> {
    fn samples() -> Vec<Self> {
        vec![BTreeSet::new(), T::samples().into_iter().collect()]
    }
}

impl<K: Samples + Ord, V: Samples + Clone> Samples for BTreeMap<K, V> {
    fn samples() -> Vec<Self> {
        let values = V::samples().into_iter().cycle();
        vec![BTreeMap::new(), K::samples().into_iter().zip(values).collect()]
    }
}

/// The samples of one field, counted round.
struct Column<T>(Vec<T>);

impl<T: Samples + Clone> Column<T> {
    fn new() -> Self {
        Self(T::samples())
    }

    fn height(&self) -> usize {
        self.0.len()
    }

    fn at(&self, row: usize) -> T {
        self.0[row % self.0.len()].clone()
    }
}

macro_rules! sample_record {
    ($wit:ident, $module:ident :: $name:ident { $($field:ident),+ $(,)? }) => {
        impl Samples for devloop_bridge::domain::$module::$name {
            fn samples() -> Vec<Self> {
                $(let $field = Column::new();)+
                let height = [$($field.height()),+].into_iter().max().unwrap_or(1);
                let pick = |row| devloop_bridge::domain::$module::$name { $($field: $field.at(row)),+ };
                (0..height).map(pick).collect()
            }
        }
        impl Trip for devloop_bridge::domain::$module::$name {
            fn trip() -> Vec<Self> {
                trip::<Self, bindings::devloop::core::types::$name>()
            }
        }
    };
}

macro_rules! sample_variant {
    ($wit:ident, $module:ident :: $name:ident {
        $($case:ident $(($($part:ident),+))? $({ $($field:ident),+ } $(as $record:ident)?)?),+ $(,)?
    }) => {
        impl Samples for devloop_bridge::domain::$module::$name {
            fn samples() -> Vec<Self> {
                let mut all = Vec::new();
                $({
                    $($(let $part = Column::new();)+)?
                    $($(let $field = Column::new();)+)?
                    let heights = [1, $($($part.height(),)+)? $($($field.height(),)+)?];
                    let height = heights.into_iter().max().unwrap_or(1);
                    let pick = |_row: usize| {
                        Self::$case $(($($part.at(_row)),+))? $({ $($field: $field.at(_row)),+ })?
                    };
                    all.extend((0..height).map(pick));
                })+
                all
            }
        }
        impl Trip for devloop_bridge::domain::$module::$name {
            fn trip() -> Vec<Self> {
                trip::<Self, bindings::devloop::core::types::$name>()
            }
        }
    };
}

macro_rules! sample_proof {
    ($wit:ident) => {
        impl Samples for devloop_core::review::ReviewedHead {
            fn samples() -> Vec<Self> {
                let (commit, who) = (Column::new(), Column::new());
                let prove =
                    |row| devloop_bridge::reviewed_head(commit.at(row), commit.at(row + 1), who.at(row));
                (0..2).map(|row| prove(row).expect("a proof")).collect()
            }
        }
        impl Trip for devloop_core::review::ReviewedHead {
            fn trip() -> Vec<Self> {
                trip::<Self, bindings::devloop::core::types::ReviewedHead>()
            }
        }
    };
}

devloop_bridge::shapes!(sample_record sample_variant sample_proof unused);

/// Goes out and comes back with every sample.
trait Trip: Sized {
    fn trip() -> Vec<Self>;
}

fn trip<T, W>() -> Vec<T>
where
    T: Samples + Clone + PartialEq + std::fmt::Debug + IntoWit<W>,
    W: IntoDomain<T>,
{
    let samples = T::samples();
    for sample in &samples {
        let back = sample.clone().into_wit().into_domain();
        assert_eq!(back.as_ref(), Ok(sample));
    }
    samples
}

fn cases<T>(samples: &[T]) -> usize {
    samples.iter().map(std::mem::discriminant).collect::<HashSet<_>>().len()
}

#[test]
fn the_whole_alphabet_comes_back_unchanged() {
    // Every other type is part of these. The counts only tell that the walk reached the cases.
    assert_eq!(cases(&Input::trip()), 2);
    assert!(cases(&Event::trip()) > 40);
    assert!(cases(&Effect::trip()) > 10);
    assert!(cases(&Reason::trip()) > 20);
    assert_eq!(cases(&CoreError::trip()), 4);
    assert_eq!(cases(&Step::trip()), 4);
    assert!(!Replayed::trip().is_empty());
    assert!(!Decision::trip().is_empty());
    assert!(!Question::trip().is_empty());
}

#[test]
fn a_bad_name_from_the_other_side_is_refused_with_its_field() {
    let event = bindings::devloop::core::types::Event::TaskAccepted("a/b".to_string());
    let refused = IntoDomain::<Event>::into_domain(event).expect_err("no task id");
    assert_eq!(refused.field, "TaskAccepted.task");
}
