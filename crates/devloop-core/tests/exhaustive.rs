//! Everything that can be in front of the core, one combination after the other: all stages, reports,
//! answers, commands, circuit positions and phases. What must be true of each is in `judge`; the lists are
//! complete by compilation.

#[path = "exhaustive/commands.rs"]
mod commands;
#[path = "exhaustive/every.rs"]
mod every;
#[path = "exhaustive/judge.rs"]
mod judge;
#[path = "exhaustive/looks.rs"]
mod looks;
#[path = "exhaustive/positions.rs"]
mod positions;
#[path = "exhaustive/scene.rs"]
mod scene;

use devloop_core::circuit::TABLE;
use devloop_core::hold::{HoldKind, Subject};
use devloop_core::ids::DispatchId;
use devloop_core::report::{Outcome, Report, Usage};
use devloop_core::state::{LoopHold, Phase, Planning};
use devloop_core::task::Stage;
use devloop_testkit::world::{key, oid};

use judge::Naming;
use positions::{positions, put};
use scene::{
    CALM, FORGOTTEN, KNOWN_RED, MEASURED, Place, RUNNING, SILENT, Scene, Temper, phases, places, tempers, tip,
};

/// Whom a report names: the dispatch and the epoch.
fn addresses() -> [(DispatchId, u32); 7] {
    [
        (RUNNING, 1),
        (RUNNING, 0),
        (RUNNING, 2),
        (SILENT, 1),
        (MEASURED, 1),
        (FORGOTTEN, 1),
        (DispatchId(77), 1),
    ]
}

fn outcomes() -> Vec<Outcome> {
    every::outcomes(&tip(), &oid(5), KNOWN_RED)
}

/// Settles the report and lets the tick end.
fn settles(scene: &Scene, report: &Report) {
    let mut scene = scene.clone();
    scene.seen.reports = vec![report.clone()];
    let (after, _) = judge::tick(&scene);
    judge::usage_is_kept(&scene.state, &after, report);
}

#[test]
fn every_list_is_as_long_as_the_cores_own() {
    assert_eq!(every::circuits(), TABLE.iter().map(|row| row.circuit).collect::<Vec<_>>());
    assert_eq!(every::answers(), devloop_core::answer::Answer::ALL);
    let named: std::collections::BTreeSet<&str> = HoldKind::ALL.iter().map(|kind| kind.key()).collect();
    assert_eq!(named.len(), HoldKind::ALL.len());
}

#[test]
fn every_report_in_every_place_and_phase_is_settled_and_no_usage_is_lost() {
    let (outcomes, usages) = (outcomes(), every::usages());
    let mut combinations = 0;
    for place in places() {
        for phase in phases() {
            let Some(scene) = scene::scene(&place, &phase, CALM) else { continue };
            for (dispatch, epoch) in addresses() {
                for (i, outcome) in outcomes.iter().enumerate() {
                    // A report of no lease is its usage only, so its outcomes take turns with the usages.
                    let live = scene.state.leases.get(&dispatch).is_some_and(|lease| lease.epoch == epoch);
                    let fits = |at: usize| live || at == i % usages.len();
                    for (_, usage) in usages.iter().enumerate().filter(|(at, _)| fits(*at)) {
                        let (usage, outcome) = (*usage, outcome.clone());
                        let report = Report { dispatch, epoch, usage, outcome };
                        let _named = Naming(|| format!("{place:?}\n{phase:?}\n{report:?}"));
                        settles(&scene, &report);
                        combinations += 1;
                    }
                }
            }
        }
    }
    println!("{combinations} combinations of places, phases and reports");
}

#[test]
fn every_report_of_a_running_dispatch_under_every_policy() {
    let mut combinations = 0;
    for place in places() {
        for temper in tempers() {
            for phase in phases() {
                let Some(scene) = scene::scene(&place, &phase, temper) else { continue };
                if scene.state.leases.is_empty() {
                    continue;
                }
                for outcome in outcomes() {
                    let report = Report { dispatch: RUNNING, epoch: 1, usage: None, outcome };
                    let _named = Naming(|| format!("{place:?}\n{temper:?}\n{phase:?}\n{report:?}"));
                    settles(&scene, &report);
                    combinations += 1;
                }
            }
        }
    }
    println!("{combinations} combinations of running places, policies, phases and outcomes");
}

#[test]
fn every_report_of_a_running_dispatch_at_every_position_of_every_circuit() {
    let mut combinations = 0;
    let usage: Option<Usage> = every::usages()[3];
    for place in places() {
        for phase in phases() {
            let Some(plain) = scene::scene(&place, &phase, CALM) else { continue };
            if plain.state.leases.is_empty() {
                continue;
            }
            for position in positions() {
                let Some(scene) = put(plain.clone(), position) else { continue };
                for outcome in outcomes() {
                    let usage = usage.filter(|_| combinations % 2 == 0);
                    let report = Report { dispatch: RUNNING, epoch: 1, usage, outcome };
                    let _named = Naming(|| format!("{place:?}\n{phase:?}\n{position:?}\n{report:?}"));
                    settles(&scene, &report);
                    combinations += 1;
                }
            }
        }
    }
    println!("{combinations} combinations of running places, phases, circuit positions and outcomes");
}

/// The subjects a hold can lie under, with every resting place of a task.
fn held_scenes(kind: HoldKind, phase: &Phase, temper: Temper) -> Vec<Scene> {
    let stages = scene::resume_points().into_iter();
    let stages = stages.map(|resume_to| Stage::Held { resume_to, hold: scene::hold(kind) });
    let tasks = stages.filter_map(|stage| scene::scene(&Place::Task(stage), phase, temper));
    let route = Subject::Route(key("work"));
    let loops = [Subject::Goal, Subject::Target, Subject::Loop, route].into_iter().filter_map(|subject| {
        let mut scene = scene::scene(&Place::Task(Stage::Ready), phase, temper)?;
        scene.state.holds.push(LoopHold { subject, hold: scene::hold(kind) });
        Some(scene)
    });
    let planning = scene::scene(&Place::Planning(Planning::Held { replaces: None }), phase, temper);
    let planning = planning.map(|mut scene| {
        scene.state.holds[0].hold = scene::hold(kind);
        scene
    });
    tasks.chain(loops).chain(planning).collect()
}

#[test]
fn every_answer_to_every_question_wherever_it_can_stand() {
    let mut combinations = 0;
    for kind in HoldKind::ALL {
        for phase in phases() {
            // Checks, verification and reviewers have no say in an answer.
            let asked = |t: &Temper| Temper { risk: t.risk, high_risk: t.high_risk, ..CALM } == *t;
            for temper in tempers().into_iter().filter(asked) {
                for scene in held_scenes(*kind, &phase, temper) {
                    let _named = Naming(|| format!("{kind:?}\n{phase:?}\n{:#?}", scene.state));
                    combinations += judge::answers(&scene);
                }
            }
        }
    }
    println!("{combinations} combinations of questions, phases, policies and answers");
}

#[test]
fn every_command_in_every_place_phase_and_circuit_position() {
    let mut combinations = 0;
    for place in places() {
        for phase in phases() {
            let Some(plain) = scene::scene(&place, &phase, CALM) else { continue };
            for position in positions() {
                let Some(scene) = put(plain.clone(), position) else { continue };
                for wish in commands::wishes() {
                    let _named = Naming(|| format!("{place:?}\n{phase:?}\n{position:?}\n{wish:?}"));
                    commands::judge(&scene, &wish);
                    combinations += 1;
                }
                combinations += judge::answers(&scene);
            }
        }
    }
    println!("{combinations} combinations of places, phases, circuit positions and commands");
}

#[test]
fn every_look_at_the_world_in_every_place_phase_and_circuit_position() {
    let mut combinations = 0;
    for place in places() {
        for phase in phases() {
            for checks in [false, true] {
                let temper = Temper { checks, ..CALM };
                let Some(plain) = scene::scene(&place, &phase, temper) else { continue };
                // Circuits do not look at the checks.
                for position in positions().into_iter().filter(|at| !checks || at.is_none()) {
                    let Some(scene) = put(plain.clone(), position) else { continue };
                    for look in looks::looks(&scene) {
                        let seen = look.seen.clone();
                        let _named = Naming(|| format!("{place:?}\n{phase:?}\n{position:?}\n{seen:?}"));
                        judge::tick(&look);
                        combinations += 1;
                    }
                }
            }
        }
    }
    println!("{combinations} combinations of places, phases, circuit positions and observations");
}
