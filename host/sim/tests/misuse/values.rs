//! The values that a field gets: those at its bounds and beyond, those of another type, and none.
use super::schema::Field;
use serde_json::{Value, json};

/// Ten KiB: more than a name, a word or an argument ever is.
const LONG: usize = 10 << 10;

/// The values of a field, each with a word for it. `None`: the field is removed. `now`: the value that it has.
pub fn of(field: &Field<'_>, now: Option<&Value>) -> Vec<(String, Option<Value>)> {
    let schema = field.schema;
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or("integer or string");
    let mut all = vec![("is removed".to_owned(), None), ("is null".to_owned(), Some(Value::Null))];
    let add = |all: &mut Vec<(String, Option<Value>)>, values: Vec<Value>| {
        all.extend(values.into_iter().map(|value| (format!("is {:.60}", value.to_string()), Some(value))));
    };
    // Of another type.
    add(&mut all, vec![json!("text"), json!(1.5), json!(true), json!([]), json!({}), json!(0)]);
    let own = match kind {
        "integer" => numbers(schema),
        "string" => texts(schema),
        "boolean" => vec![json!(true), json!(false), json!("true")],
        "array" => lists(schema, now),
        "object" => vec![json!({"ofALaterVersion": 1}), json!([{}])],
        _ => [numbers(schema), texts(schema)].concat(),
    };
    add(&mut all, own);
    all
}

fn numbers(schema: &Value) -> Vec<Value> {
    let mut all = vec![json!(-1), json!(0), json!(1), json!(2), json!(3), json!(4), json!(1000), json!(1001)];
    all.extend([json!(2_147_483_648_u64), json!(9_007_199_254_740_993_u64), json!(u64::MAX)]);
    for bound in ["minimum", "maximum"].iter().filter_map(|name| schema.get(*name)?.as_i64()) {
        all.extend([bound.saturating_sub(1), bound, bound.saturating_add(1)].map(Value::from));
    }
    all
}

fn texts(schema: &Value) -> Vec<Value> {
    let mut all: Vec<String> =
        ["", "a", "A", "All", "all", "1", "-rf", "$(id)", "a b", "a\n\u{1b}[2J", "db", "db-0", "db-2", "db-9", "db-00"]
            .map(str::to_owned)
            .into();
    all.extend([
        "db-99999999999".to_owned(),
        "helper".into(),
        "tanist".into(),
        "tanist-run".into(),
        "é".into(),
        "x".repeat(LONG),
    ]);
    for name in ["minLength", "maxLength"] {
        let Some(bound) = schema.get(name).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok()) else {
            continue;
        };
        // The largest texts are as long as the object may be; longer ones are refused by their length.
        let lengths = [bound.saturating_sub(1), bound, bound.saturating_add(1)];
        all.extend(lengths.into_iter().filter(|length| *length <= 1 << 17).map(|length| "x".repeat(length)));
    }
    let words = schema.get("enum").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    all.extend(words.flat_map(|word| [word.to_owned(), word.to_lowercase(), format!("{word} ")]));
    all.into_iter().map(Value::from).collect()
}

/// Lists of what is there, or of what may be there: none, one, the same twice, and too many.
fn lists(schema: &Value, now: Option<&Value>) -> Vec<Value> {
    let items = &schema["items"];
    let item = now.and_then(|now| now.get(0)).cloned().unwrap_or_else(|| {
        match items.get("enum").and_then(|words| words.get(0)) {
            Some(word) => word.clone(),
            None if items["type"] == "string" => json!("a"),
            None => json!({"name": "another"}),
        }
    });
    let most = schema.get("maxItems").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok()).unwrap_or(4);
    let many = |count: usize| Value::Array((0..count).map(|number| renamed(&item, number)).collect());
    let twice = json!([item, item]);
    vec![json!([item]), twice, many(most), many(most + 1), json!([null]), json!([1]), json!({"0": item})]
}

/// A copy of an item with a name of its own, if it has one.
fn renamed(item: &Value, number: usize) -> Value {
    let mut copy = item.clone();
    match &mut copy {
        Value::String(text) => *text = format!("{text}{number}"),
        Value::Object(object) if number > 0 && object.contains_key("name") => {
            drop(object.insert("name".into(), format!("n{number}").into()))
        }
        _ => {}
    }
    copy
}
