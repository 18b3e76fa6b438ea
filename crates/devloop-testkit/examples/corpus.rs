//! Writes the corpus of `devloop_testkit::corpus` for the programs that are not Rust: one recording per line.
//! `cargo xtask test --only agree` calls it.

use std::io::Write;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let Some(file) = std::env::args().nth(1) else {
        return Err(std::io::Error::other("usage: corpus <file.jsonl>"));
    };
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces");
    let recordings = devloop_testkit::corpus::recordings(&traces)?;
    let mut out = std::io::BufWriter::new(std::fs::File::create(&file)?);
    for recording in &recordings {
        out.write_all(&devloop_wire::canonical(recording))?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    let steps: usize = recordings.iter().map(|recording| recording.steps.len()).sum();
    println!("{} recordings with {steps} steps in {file}", recordings.len());
    Ok(())
}
