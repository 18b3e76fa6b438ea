//! What every refusal owes the person who meets it. It owns that one property.

use devloop_wire::{DocError, Fault};

/// A refusal says what is wrong and, where the document is whole, in which field: in its path, or by the name
/// of a field of the document itself.
pub fn judge(error: &DocError, bytes: &[u8]) {
    assert!(!error.what.trim().is_empty(), "a refusal without a sentence: {error:?}");
    if error.fault != Fault::Defect || !error.path.is_empty() {
        return;
    }
    let is_object = serde_json::from_slice::<serde_json::Value>(bytes).is_ok_and(|value| value.is_object());
    let names_field = error.what.contains('`') || error.what.contains("version");
    assert!(!is_object || names_field, "a refusal that names no field: {error:?}");
}
