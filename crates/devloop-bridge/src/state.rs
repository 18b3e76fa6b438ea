//! Owns the conversions of leases, grants, gates and money, as far as events carry them. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! state_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $record!($wit, state::Owner { host, boot, pid, started, instance });
        $variant!($wit, state::Op { Plan, Work, Commit, Check, Review, Refresh, Merge, Verify, Revert });
        $variant!($wit, state::Ending { Deadline, Operator, Orphan });
        $record!($wit, state::Lease {
            op, subject, route, who, epoch, owner, started_at, deadline, reserve, basis, worktree, resume_to,
            ending,
        });
        $variant!($wit, ledger::Certainty { Reserved, Assumed, Priced, Measured });
        $record!($wit, state::AnswerRecord { key, answer, by, at });
        $variant!($wit, state::GrantScope {
            Head { head, contract } as GrantScopeHead, Day(a), Goal(a), Session(a),
        });
        $record!($wit, state::Grant { kind, subject, scope, by, at });
        $variant!($wit, state::Gate { Open, ClosedUntil { at, why } as GateClosedUntil, Closed });
    };
}
