//! Parameters as a type.

use std::collections::BTreeMap;

use serde::Deserialize;
use tanist_policy::{
    Fault,
    testing::{member, snapshot},
};

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Order {
    NewestFirst,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Mine {
    zone: String,
    patience: i64,
    #[serde(default)]
    order: Option<Order>,
    #[serde(default)]
    weights: BTreeMap<String, u64>,
}

fn read(json: &str) -> Result<Mine, Fault> {
    snapshot([member(0)]).with_parameters(json).parameters()
}

// P49: parameters of a type of the author's own.
#[test]
fn parameters_are_read_as_a_type() {
    let found = read(
        r#"{"order":"newest-first","patience":-5,"weights":{"a\"b":18446744073709551615},"zone":"\u00e9","z":[{}]}"#,
    );
    let weights = BTreeMap::from([("a\"b".to_owned(), u64::MAX)]);
    assert_eq!(found.unwrap(), Mine { zone: "é".to_owned(), patience: -5, order: Some(Order::NewestFirst), weights });
    assert_eq!(read(r#" { "zone" : "a" , "patience" : 1 } "#).unwrap().patience, 1);
}

// P49: an error names the parameter and what was expected.
#[test]
fn an_error_names_the_parameter() {
    for (json, message) in [
        (r#"{"patience":1,"zone":7}"#, "parameters.zone: invalid type: integer `7`, expected a string"),
        (r#"{"patience":1.5,"zone":"a"}"#, "parameters.patience: invalid type: floating point `1.5`, expected i64"),
        (r#"{"patience":1}"#, "parameters: missing field `zone`"),
        (r#"{}"#, "parameters: missing field `zone`"),
        (
            r#"{"order":"other","patience":1,"zone":"a"}"#,
            "parameters.order: unknown variant `other`, expected `newest-first`",
        ),
        (r#"{"weights":{"a":-1}}"#, "parameters.weights: invalid value: integer `-1`, expected u64"),
    ] {
        let fault = read(json).unwrap_err();
        assert!(fault.message.starts_with(message), "{}", fault.message);
        assert!(fault.location.unwrap().file.ends_with("typed.rs"));
    }
}

/// The host gives one form; whatever else comes ends in a fault and not in a trap.
#[test]
fn no_text_makes_it_panic() {
    let text = r#"{"patience":1,"weights":{"a":[1,{"b":"c"}]},"zone":"\ud83d\ude00"}"#;
    for end in 0..text.len() {
        if let Some(text) = text.get(..end) {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
