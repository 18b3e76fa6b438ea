//! JSON Schema of every document, generated from the types that read it. It must not be needed at run time.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::config_shape::ConfigShape;
use crate::contract::ContractDoc;
use crate::envelope_form::{ImplementationIn, PlanIn, ReviewIn};
use crate::event_line::{EventLine, SegmentHead};
use crate::state_doc::StateDoc;
use crate::trace_line::{TraceHead, TraceLine};

/// Every schema: file name under docs/schema and content.
#[must_use]
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("state.schema.json", of::<StateDoc>("STATE.json")),
        ("events.schema.json", either("One line of EVENTS.jsonl", [part::<SegmentHead>, part::<EventLine>])),
        ("trace.schema.json", either("One line of TRACE.jsonl", [part::<TraceHead>, part::<TraceLine>])),
        ("contract.schema.json", of::<ContractDoc>("CONTRACT.json")),
        ("envelope.schema.json", envelope()),
        ("config.schema.json", of::<ConfigShape>(".devloop/config.json, and the plugin's config block")),
    ]
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

fn of<T: JsonSchema>(title: &str) -> Value {
    let mut schema = generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

fn part<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// A schema of alternatives that share their definitions.
fn either<const N: usize>(title: &str, parts: [fn(&mut SchemaGenerator) -> Value; N]) -> Value {
    let mut generator = generator();
    let parts: Vec<Value> = parts.iter().map(|part| part(&mut generator)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "anyOf": parts,
        "$defs": generator.take_definitions(true),
    })
}

/// The envelope: the fields of each kind beside `version` and `kind`.
fn envelope() -> Value {
    let mut generator = generator();
    let kinds = [
        ("plan", part::<PlanIn>(&mut generator)),
        ("implementation", part::<ImplementationIn>(&mut generator)),
        ("review", part::<ReviewIn>(&mut generator)),
    ];
    let kinds = kinds.map(|(kind, fields)| {
        let head = json!({
            "type": "object",
            "properties": { "version": { "const": 1 }, "kind": { "const": kind } },
            "required": ["version", "kind"],
        });
        json!({ "allOf": [head, fields] })
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The JSON inside <devloop_result>, version 1",
        "oneOf": kinds,
        "$defs": generator.take_definitions(true),
    })
}
