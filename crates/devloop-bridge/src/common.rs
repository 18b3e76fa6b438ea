//! Owns the conversions of what several alphabets share: clocks, tokens, tiers, verdicts, basis. It must not
//! decide.

#[doc(hidden)]
#[macro_export]
macro_rules! common_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $record!($wit, units::AwakeMs { boot, ms });
        $record!($wit, units::Tokens { input_uncached, cache_read, cache_write, output, reasoning });
        $variant!($wit, tier::Tier { T0, T1, T2, T3 });
        $variant!($wit, tier::Risk { Low, Medium, High });
        $variant!($wit, review::Verdict { Pass, PassWithNotes, Rework, Replan, Blocked });
        $variant!($wit, finding::Severity { Blocking, Note });
        $record!($wit, finding::Found { id, severity, path, line, text });
        $record!($wit, finding::Finding { id, severity, path, line, text });
        $record!($wit, finding::Findings { open, named });
        $record!($wit, review::Review { verdict, head, notes, findings });
        $variant!($wit, policy::Acceptance { Absent, Digest(a) });
        $variant!($wit, policy::Independence { Model, Vendor });
        $record!($wit, policy::ReviewPolicy { independence, not_lower });
        $record!($wit, basis::Basis { goal_epoch, contract, acceptance, review_policy, base, head });
        $proof!($wit);
    };
}
