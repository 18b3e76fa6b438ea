//! `devloop cost`: every table adds up to what the status says was spent, in all three forms.

use crate::support::{Bench, everything};

/// The sums of a table as the CSV form has them: money spent and set aside.
fn sum(csv: &str) -> u64 {
    let cells = csv.lines().skip(1).flat_map(|line| line.split(',').skip(2).take(4));
    cells.map(|cell| cell.parse::<u64>().unwrap()).sum()
}

#[test]
fn every_table_adds_up_to_what_was_spent() {
    let bench = Bench::new();
    let root = bench.sample("r", 0);
    let text = root.to_str().unwrap();
    let run = bench.devloop(&["run", text, "--until-idle"]);
    let (_, view) = bench.status(&root);
    let goal = &view["money"]["goal"];
    let spent: u64 =
        ["measured", "priced", "assumed", "reserved"].iter().map(|name| goal[name].as_u64().unwrap()).sum();
    assert!(spent > 0, "{run:?}");
    let before = everything(&root);
    for by in ["task", "route", "day"] {
        let csv = bench.devloop(&["cost", text, "--by", by, "--csv"]);
        assert_eq!((csv.code, sum(&csv.out)), (0, spent), "{csv:?}");
        assert!(csv.out.starts_with(&format!("{by},dispatches,")), "{csv:?}");
        let json = bench.devloop(&["cost", text, "--by", by, "--json"]);
        let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        let total = &report["total"];
        let names = ["measured", "priced", "assumed", "reserved"];
        let shown: u64 = names.iter().map(|n| total[format!("{n}_usd_micros")].as_u64().unwrap()).sum();
        assert_eq!((report["by"].as_str(), shown), (Some(by), spent));
        let plain = bench.devloop(&["cost", text, "--by", by]);
        assert!(plain.out.contains("the next run, from what was measured"), "{}", plain.out);
    }
    assert_eq!(everything(&root), before, "a report writes nothing");
}

#[test]
fn a_project_that_spent_nothing_has_an_empty_report() {
    let bench = Bench::new();
    let root = bench.armed("r");
    let ran = bench.verb("cost", &root);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("total  0           $0.00"), "{}", ran.out);
    let bad = bench.devloop(&["cost", root.to_str().unwrap(), "--by", "hour"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    assert!(bad.err.contains("possible values: task, route, day"), "{}", bad.err);
}
