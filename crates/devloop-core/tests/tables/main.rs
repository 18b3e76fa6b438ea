//! State machine tables: a sketch of a state, an observation or a command, the decision, and what then
//! differs. The texts beside this file are read in review; `DEVLOOP_BLESS=1` writes them anew.

mod answers;
mod circuits;
mod goal;
mod reports;
mod sheet;
mod wishes;

use sheet::Sheet;

/// Every table: its name and what writes it.
const TABLES: &[(&str, fn(&mut Sheet))] = &[
    ("reports", reports::write),
    ("answers", answers::write),
    ("circuits", circuits::write),
    ("goal", goal::write),
    ("wishes", wishes::write),
];

#[test]
fn every_table_says_what_the_core_decides() {
    for (name, write) in TABLES {
        let mut sheet = Sheet::default();
        write(&mut sheet);
        sheet.compare(name);
    }
}
