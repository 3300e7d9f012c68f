//! Versions of an application's data (`spec.version`): one to three numbers, separated by dots, compared number by number.
use std::cmp::Ordering;

/// The numbers of a version; those that it does not name are 0. `None`: it is no version.
#[must_use]
pub fn read(text: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut words = text.split('.');
    for number in &mut numbers {
        let Some(word) = words.next() else { break };
        if word.len() > 6 || !word.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = word.parse().ok()?;
    }
    (!text.is_empty() && words.next().is_none()).then_some(numbers)
}

/// The version with all three numbers, so that two texts of the same version are equal. A text that is no version stays as it is.
#[must_use]
pub fn whole(text: &str) -> String {
    read(text).map_or_else(|| text.to_owned(), |[first, second, third]| format!("{first}.{second}.{third}"))
}

/// How one version stands to another one. `None`: one of them is no version.
#[must_use]
pub fn compare(one: &str, other: &str) -> Option<Ordering> {
    Some(read(one)?.cmp(&read(other)?))
}
