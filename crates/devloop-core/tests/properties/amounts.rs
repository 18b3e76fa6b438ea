//! Numbers: the basis compared, prices, caps up to saturation.

use devloop_core::basis::{Basis, BasisField};
use devloop_core::circuit::{Cap, Circuit};
use devloop_core::ledger::Spend;
use devloop_core::policy::{Acceptance, Independence, ReviewPolicy};
use devloop_core::units::{MAX_NUMBER, Price, Tokens, UsdMicros};
use devloop_testkit::world::{digest, oid};
use proptest::prelude::*;

fn basis() -> impl Strategy<Value = Basis> {
    let commit = || proptest::option::of((1u64..4).prop_map(oid));
    let checks = prop_oneof![Just(Acceptance::Absent), (1u64..4).prop_map(|n| Acceptance::Digest(digest(n)))];
    let rule = (any::<bool>(), any::<bool>()).prop_map(|(vendor, not_lower)| ReviewPolicy {
        independence: if vendor { Independence::Vendor } else { Independence::Model },
        not_lower,
    });
    (0u32..3, 0u32..3, checks, rule, commit(), commit()).prop_map(
        |(goal_epoch, contract, acceptance, review_policy, base, head)| Basis {
            goal_epoch,
            contract,
            acceptance,
            review_policy,
            base,
            head,
        },
    )
}

/// Takes one field of the other basis; the match names every field there is.
fn graft(onto: &Basis, from: &Basis, field: BasisField) -> Basis {
    let (onto, from) = (onto.clone(), from.clone());
    match field {
        BasisField::GoalEpoch => Basis { goal_epoch: from.goal_epoch, ..onto },
        BasisField::Contract => Basis { contract: from.contract, ..onto },
        BasisField::Acceptance => Basis { acceptance: from.acceptance, ..onto },
        BasisField::ReviewPolicy => Basis { review_policy: from.review_policy, ..onto },
        BasisField::Base => Basis { base: from.base, ..onto },
        BasisField::Head => Basis { head: from.head, ..onto },
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..1_000_000,
        2 => (MAX_NUMBER - 5)..=MAX_NUMBER,
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn amount() -> impl Strategy<Value = UsdMicros> {
    prop_oneof![4 => 0u64..2_000_000, 1 => (MAX_NUMBER - 5)..=MAX_NUMBER].prop_map(UsdMicros)
}

proptest! {
    #![proptest_config(super::cases(512))]

    #[test]
    fn a_basis_differs_exactly_where_it_is_not_equal(one in basis(), other in basis()) {
        prop_assert_eq!(one.difference(&other).is_none(), one == other);
        prop_assert_eq!(one.difference(&other), other.difference(&one));
        let fields = super::every::units!(BasisField: GoalEpoch, Contract, Acceptance, ReviewPolicy, Base,
            Head);
        for field in fields {
            let grafted = graft(&one, &other, field);
            let expected = (grafted != one).then_some(field);
            prop_assert_eq!(one.difference(&grafted), expected);
        }
    }

    #[test]
    fn a_price_rounds_up_and_never_wraps(tokens in [number(), number(), number(), number()],
                                         price in [number(), number(), number(), number()]) {
        let used = Tokens {
            input_uncached: tokens[0],
            cache_read: tokens[1],
            cache_write: tokens[2],
            output: tokens[3],
            reasoning: 0,
        };
        let rate = Price {
            input_uncached: price[0],
            cache_read: price[1],
            cache_write: price[2],
            output: price[3],
        };
        // Each product has at most 128 bits; their millionths fit a sum of four.
        let exact: u128 = tokens.iter().zip(price)
            .map(|(n, p)| (u128::from(*n) * u128::from(p)).div_ceil(1_000_000))
            .sum();
        let expected = u64::try_from(exact).unwrap_or(MAX_NUMBER).min(MAX_NUMBER);
        prop_assert_eq!(rate.cost(&used), UsdMicros(expected));
    }

    #[test]
    fn a_cap_admits_what_fits_and_nothing_when_the_sum_saturates(
        parts in [amount(), amount(), amount(), amount()],
        limit in amount(),
        reserve in amount(),
    ) {
        let [measured, priced, assumed, reserved] = parts;
        let spend = Spend { measured, priced, assumed, reserved };
        let cap = Cap { circuit: Circuit::DailyCostCap, limit, spend };
        let exact = |parts: &[UsdMicros]| parts.iter().map(|part| u128::from(part.0)).sum::<u128>();
        let fits = |sum: u128| sum < u128::from(MAX_NUMBER) && sum <= u128::from(limit.0);
        let settled = exact(&[measured, priced, assumed, reserve]);
        let now = settled + exact(&[reserved]);
        prop_assert_eq!(cap.fits_when_settled(reserve), fits(settled));
        prop_assert_eq!(cap.fits_now(reserve), fits(now));
        let left = u128::from(limit.0).saturating_sub(exact(&parts).min(u128::from(MAX_NUMBER)));
        prop_assert_eq!(u128::from(cap.left().0), left);
    }
}
