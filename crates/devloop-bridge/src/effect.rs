//! Owns the conversions of effects. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! effect_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $record!($wit, effect::Contract {
            task, edition, title, tier, risk, allowed_paths, criteria, estimate, base, implementers,
        });
        $variant!($wit, effect::Start { Fresh, Continue { tip } });
        $variant!($wit, effect::Job {
            Plan { base, replaces, notes } as JobPlan, Work { contract, start, notes, findings } as JobWork,
            Review { contract, head, earlier, checks } as JobReview,
        });
        $variant!($wit, effect::Effect {
            Dispatch { dispatch, epoch, route, limit_ms, job } as EffectDispatch,
            Commit { dispatch, epoch, work, contract, route } as EffectCommit,
            Check { dispatch, epoch, commit, contract, known_red } as EffectCheck,
            Merge { dispatch, epoch, contract, head, base, target, known_red } as EffectMerge,
            Refresh { dispatch, epoch, contract, head, target } as EffectRefresh,
            Verify { dispatch, epoch, commit, known_red } as EffectVerify,
            Revert { dispatch, epoch, contract, commit, target } as EffectRevert,
            RemoveWorktree { dispatch }, Cancel { dispatch }, CreateTarget { branch }, Wake,
            Notify { key, text } as EffectNotify,
        });
    };
}
