//! The official test suite of JSON Schema, draft 2020-12, for the words that are understood: every case of these files is run.
//!
//! The files in `tests/json-schema` are as the suite has them (its licence is beside them; README.md there says which version). Each schema is put where
//! parameters are: in a property of an object. A schema that the gate refuses is named in `refused.txt` with the gate's words, so that what is
//! refused is seen in a change.

use std::{fmt::Write, fs, path::Path};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Schema, WORDS, validate};
use crate::limits::Limits;

/// Every other word of the draft's vocabularies, and of its predecessors.
const REFUSED: [&str; 49] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "allOf",
    "anyOf",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "disallow",
    "divisibleBy",
    "else",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "extends",
    "format",
    "id",
    "if",
    "maxContains",
    "maxProperties",
    "minContains",
    "minProperties",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "readOnly",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// Schemas of one kind, with values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    description: String,
    #[serde(rename = "comment")]
    _comment: Option<String>,
    #[serde(rename = "specification")]
    _specification: Option<Value>,
    schema: Value,
    tests: Vec<Case>,
}

/// A value, and whether the schema accepts it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    description: String,
    #[serde(rename = "comment")]
    _comment: Option<String>,
    data: Value,
    valid: bool,
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/json-schema"))
}

/// Each file of the suite with its name, which is that of a word.
fn files() -> Vec<(String, Vec<Group>)> {
    let names = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut words: Vec<_> = names.filter_map(|name| name.strip_suffix(".json").map(str::to_owned)).collect();
    words.sort();
    let read = |word: &String| fs::read_to_string(folder().join(format!("{word}.json"))).unwrap();
    words.iter().map(|word| (word.clone(), serde_json::from_str(&read(word)).unwrap())).collect()
}

/// The schema as that of one parameter. The suite says `$schema` in each, and `$comment` in some, which mean nothing here; the gate refuses both.
fn of_parameter(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(words) = schema.as_object_mut() {
        words.remove("$schema");
        words.remove("$comment");
    }
    json!({"type": "object", "properties": {"value": schema}})
}

fn accepts(schema: &Schema, value: &Value) -> bool {
    validate(Some(schema), &json!({"value": value}).to_string(), &Limits::default()).is_ok()
}

// P16: the words mean what the standard says.
#[test]
fn every_case_of_the_official_suite_has_its_result() {
    let (mut refused, mut wrong, mut ran) = (String::new(), String::new(), 0);
    for (word, groups) in files() {
        for group in groups {
            let text = of_parameter(&group.schema).to_string();
            let schema = match Schema::parse(&text, &Limits::default()) {
                Ok(schema) => schema,
                Err(error) => {
                    let words = error.message.split("; the words that are").next().unwrap().to_owned();
                    let at = error.path.trim_start_matches("schema.properties.value");
                    writeln!(
                        refused,
                        "{word}: {}: {at}{}{words}",
                        group.description,
                        if at.is_empty() { "" } else { " " }
                    )
                    .unwrap();
                    continue;
                }
            };
            for case in &group.tests {
                ran += 1;
                if accepts(&schema, &case.data) != case.valid {
                    writeln!(wrong, "{word}: {}: {}: it is to be {}", group.description, case.description, case.valid)
                        .unwrap();
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(
        refused,
        fs::read_to_string(folder().join("refused.txt")).unwrap(),
        "what is refused: tests/json-schema/refused.txt"
    );
    assert!(ran > 200, "only {ran} cases were run");
}

#[test]
fn each_word_that_constrains_has_its_file() {
    let files: Vec<_> = files().into_iter().map(|(word, _)| word).collect();
    let mut words: Vec<_> = WORDS.into_iter().filter(|word| !["title", "description"].contains(word)).collect();
    words.sort_unstable();
    assert_eq!(files, words);
}

/// P16: a word that is not understood is refused with its name and place, wherever a schema may stand, and whatever its value is.
#[test]
fn every_other_word_is_refused_by_its_name() {
    let refusal = |schema: &Value| Schema::parse(&schema.to_string(), &Limits::default()).unwrap_err();
    for word in REFUSED.into_iter().chain(["anything", "Type", ""]) {
        for value in [json!({}), json!(true), json!([]), json!("https://example.org/other.json"), json!(1), Value::Null]
        {
            let one = Value::Object(Map::from_iter([(word.to_owned(), value)]));
            let in_items = json!({"type": "object", "properties": {"a": {"type": "array", "items": one.clone()}}});
            let in_property = json!({"type": "object", "properties": {"a": one.clone()}});
            let mut outside = one;
            outside["type"] = "object".into();
            for (schema, place) in
                [(outside, "schema"), (in_property, "schema.properties.a"), (in_items, "schema.properties.a.items")]
            {
                let error = refusal(&schema);
                assert_eq!(error.path, place, "{word}");
                let named = format!("`{word}` is not understood; the words that are: type, properties, ");
                assert!(error.message.starts_with(&named), "{word}: {error}");
            }
        }
    }
}

/// The list in the contract, which authors read, is the one that counts here.
#[test]
fn the_contract_lists_the_words() {
    let contract = include_str!("../../../../wit/policy.wit").replace("        ///", "");
    let listed = contract.split("Only these words are accepted:").nth(1).unwrap().split("Absent:").next().unwrap();
    let listed: Vec<_> = listed.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, WORDS);
}

/// P49: what the SDK writes as a schema is accepted, and means what the SDK says.
#[test]
fn schemas_of_the_sdk_are_understood() {
    use tanist_policy::schema::{flag, integer, list, number, object, one_of, optional, required, text};
    let schema = object([
        required("zone", text().min_length(1).max_length(3).describe("A \"zone\".")),
        optional("patience", integer().minimum(0).maximum(9).default(3)),
        optional("share", number().maximum(1)),
        optional("order", one_of(["up", "down"]).default("up")),
        optional("on", flag().default(true)),
        optional("list", list(text()).min_items(1).max_items(2).default(["x", "y"])),
        optional("deep", object([required("n", one_of([1, 2]))])),
    ]);
    let schema = Schema::parse(&schema.to_string(), &Limits::default()).unwrap();
    let filled = |text: &str| validate(Some(&schema), text, &Limits::default());
    assert_eq!(
        filled(r#"{"zone":"a"}"#).unwrap(),
        r#"{"list":["x","y"],"on":true,"order":"up","patience":3,"zone":"a"}"#
    );
    for refused in [
        "{}",
        r#"{"zone":""}"#,
        r#"{"zone":"abcd"}"#,
        r#"{"zone":"a","zoen":"b"}"#,
        r#"{"zone":"a","patience":-1}"#,
        r#"{"zone":"a","patience":10}"#,
        r#"{"zone":"a","share":1.5}"#,
        r#"{"zone":"a","order":"left"}"#,
        r#"{"zone":"a","list":[]}"#,
        r#"{"zone":"a","list":["a","b","c"]}"#,
        r#"{"zone":"a","deep":{"n":3}}"#,
    ] {
        assert!(filled(refused).is_err(), "{refused}");
    }
}

/// Where this gate differs from the standard on purpose: a default is filled in, so what is required and has one need not be given, and a default that
/// its own schema refuses is an error when the policy is loaded.
#[test]
fn a_default_is_a_value_that_a_policy_gets() {
    let schema = r#"{"type":"object","required":["a"],"properties":{"a":{"type":"integer","default":3}}}"#;
    let schema = Schema::parse(schema, &Limits::default()).unwrap();
    assert_eq!(validate(Some(&schema), "{}", &Limits::default()).unwrap(), r#"{"a":3}"#);
}
