//! A recorded night as one document for a browser: the recording, the core that decides it again and the page
//! around them, in one file that loads nothing from anywhere. It must not read a recording or decide.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

const FRAME: &str = include_str!("../page/replay.html");
const STYLE: &str = include_str!("../page/replay.css");
const SCRIPT: &str = include_str!("../page/replay.js");
const GLUE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/built/devloop_web.js"));
const CORE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/built/devloop_web_bg.wasm.gz"));

/// The document for the lines of a trace, each ended by a newline. `name` is what the night belongs to, any
/// text. About 1.2 MB, and a tenth of the trace.
#[must_use]
pub fn document(name: &str, trace: &[u8]) -> String {
    let policy = format!(
        "default-src 'none'; img-src data:; script-src {} {} 'wasm-unsafe-eval'; style-src {}; \
         base-uri 'none'; form-action 'none'",
        source(GLUE),
        source(SCRIPT),
        source(STYLE),
    );
    let mut out = String::new();
    let mut rest = FRAME;
    // One pass from front to back, so that nothing that is put in is looked at again.
    while let Some((before, (key, after))) =
        rest.split_once("{{").and_then(|(before, behind)| Some((before, behind.split_once("}}")?)))
    {
        out.push_str(before);
        match key {
            "policy" => out.push_str(&policy),
            "name" => out.push_str(&escaped(name)),
            "style" => out.push_str(STYLE),
            "glue" => out.push_str(GLUE),
            "script" => out.push_str(SCRIPT),
            "core" => out.push_str(&STANDARD.encode(CORE)),
            "recording" => out.push_str(&STANDARD.encode(zipped(trace))),
            _ => {}
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Whether the bytes begin as [`document`] lets a page begin.
#[must_use]
pub fn is_document(bytes: &[u8]) -> bool {
    let start = FRAME.split("{{").next().unwrap_or(FRAME);
    bytes.starts_with(start.as_bytes())
}

/// A script or style as a content security policy names it.
fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail; a document without its recording says so itself.
    let written = gzip.write_all(bytes);
    written.and_then(|()| gzip.finish()).unwrap_or_default()
}

/// A text as it stands in a document, in and out of quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_filled_once_and_texts_stay_texts() {
        let name = "{{recording}} <script>alert(1)</script> \"'&";
        let document = document(name, b"line\n");
        assert!(!document.contains("<script>alert"));
        assert!(is_document(document.as_bytes()) && !is_document(b"<!doctype html>\n<p>mine"));
        assert!(document.contains("{{recording}} &lt;script&gt;alert(1)&lt;/script&gt; &quot;&#39;&amp;"));
        assert_eq!(document.matches("{{").count(), 2, "the title and the heading hold the name");
        assert_eq!(document.matches(&STANDARD.encode(CORE)).count(), 1);
        assert_eq!(document.matches(&STANDARD.encode(zipped(b"line\n"))).count(), 1);
    }

    #[test]
    fn no_script_can_end_before_its_end() {
        for text in [GLUE, SCRIPT, STYLE] {
            assert!(!text.contains("</") && !text.contains("<!--"), "it would end the element it stands in");
        }
    }
}
