//! The status of a group, as the present release and the one before write it.

use serde_json::Value;
use tanist_e2e::text;

/// The serving primary: the first of `status.primaries`, or what 802004e writes, `status.primary`. Empty: there is none.
pub fn primary(group: &Value) -> &str {
    match group.pointer("/status/primaries/0").and_then(Value::as_str) {
        Some(name) => name,
        None => text(group, "/status/primary"),
    }
}

/// How many members are in their role: `status.readyReplicas`, or what 802004e writes, `status.serving` as "3/5".
pub fn in_role(group: &Value) -> Option<u64> {
    match group.pointer("/status/readyReplicas") {
        Some(count) => count.as_u64(),
        None => text(group, "/status/serving").split('/').next()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_releases_are_read() {
        let new = json!({"status": {"primaries": ["db-1", "db-2"], "readyReplicas": 3}});
        assert_eq!((primary(&new), in_role(&new)), ("db-1", Some(3)));
        let old = json!({"status": {"primary": "db-1", "serving": "3/5"}});
        assert_eq!((primary(&old), in_role(&old)), ("db-1", Some(3)));
        let none = json!({"status": {"primaries": []}});
        assert_eq!((primary(&none), in_role(&none)), ("", None));
    }
}
