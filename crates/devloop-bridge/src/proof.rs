//! Owns the one conversion that must prove something: a reviewed head. It must not make a proof of anything
//! else.

use alloc::collections::BTreeSet;
use alloc::format;

use devloop_core::ids::{Identity, Oid};
use devloop_core::policy::Independence;
use devloop_core::review::{Review, ReviewedHead, Verdict};

use crate::Refused;

/// A proof has one constructor, so it is proven again on the way in: by the very verdict that it stands for.
#[doc(hidden)]
#[macro_export]
macro_rules! reviewed_head {
    ($wit:ident) => {
        impl $crate::IntoWit<$wit::ReviewedHead> for $crate::domain::review::ReviewedHead {
            fn into_wit(self) -> $wit::ReviewedHead {
                $wit::ReviewedHead {
                    head: $crate::IntoWit::into_wit(self.head().clone()),
                    base: $crate::IntoWit::into_wit(self.base().clone()),
                    reviewer: $crate::IntoWit::into_wit(self.reviewer().clone()),
                }
            }
        }
        impl $crate::IntoDomain<$crate::domain::review::ReviewedHead> for $wit::ReviewedHead {
            fn into_domain(self) -> Result<$crate::domain::review::ReviewedHead, $crate::Refused> {
                let head = $crate::field(self.head, "head")?;
                let base = $crate::field(self.base, "base")?;
                let reviewer = $crate::field(self.reviewer, "reviewer")?;
                $crate::reviewed_head(head, base, reviewer)
            }
        }
    };
}

/// Builds the proof that a passing verdict by `reviewer` on exactly `head` and `base` gives.
///
/// # Errors
/// [`Refused`] when the core finds that it proves nothing.
pub fn reviewed_head(head: Oid, base: Oid, reviewer: Identity) -> Result<ReviewedHead, Refused> {
    let pass = Review::bare(Verdict::Pass, head.clone());
    // Who implemented does not cross with the proof; the sender compared the reviewer with them when it was
    // made.
    ReviewedHead::prove(&pass, &head, &base, &reviewer, &BTreeSet::new(), Independence::Model)
        .map_err(|fault| Refused::new(format!("not a proof of a review: {fault:?}")))
}
