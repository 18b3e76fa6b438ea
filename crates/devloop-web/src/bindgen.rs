//! Turns the compiled page into what a browser loads: the module and its JavaScript. `cargo xtask web` calls
//! it with the two paths; it must not build anything itself.

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), String> {
    let mut words = std::env::args().skip(1);
    let (Some(module), Some(folder), None) = (words.next(), words.next(), words.next()) else {
        return Err("usage: devloop-web-bindgen <module.wasm> <folder>; `cargo xtask web` calls it".into());
    };
    let mut bindgen = Bindgen::new();
    let made = bindgen.input_path(&module).web(true).and_then(|bindgen| bindgen.generate(&folder));
    made.map_err(|error| format!("{module}: {error:#}"))
}
