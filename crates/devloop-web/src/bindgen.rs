//! Turns the compiled page into what a browser loads: the module and its JavaScript. `cargo xtask web` calls
//! it with the two paths; it must not build anything itself.

use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use wasm_bindgen_cli_support::Bindgen;

/// What bindgen calls the module.
const MODULE: &str = "devloop_web_bg.wasm";

fn main() -> Result<(), String> {
    let mut words = std::env::args().skip(1);
    let (Some(module), Some(folder), None) = (words.next(), words.next(), words.next()) else {
        return Err("usage: devloop-web-bindgen <module.wasm> <folder>; `cargo xtask web` calls it".into());
    };
    let about = |error: &dyn std::fmt::Display| format!("{module}: {error:#}");
    let mut bindgen = Bindgen::new();
    // A plain script and not a module: a document opened from a disk may not load modules.
    let made = bindgen
        .input_path(&module)
        .remove_name_section(true)
        .remove_producers_section(true)
        .no_modules(true)
        .and_then(|bindgen| bindgen.generate(&folder));
    made.map_err(|error| about(&error))?;
    let folder = Path::new(&folder);
    let bytes = std::fs::read(folder.join(MODULE)).map_err(|error| about(&error))?;
    let file = std::fs::File::create(folder.join(format!("{MODULE}.gz"))).map_err(|error| about(&error))?;
    let mut gzip = GzEncoder::new(file, Compression::best());
    std::io::Write::write_all(&mut gzip, &bytes).map_err(|error| about(&error))?;
    gzip.finish().map(drop).map_err(|error| about(&error))
}
