//! What clients ask a server, and what its answer means.
use super::session::{Answer, Session};
use crate::journal::{Entry, Operation, Outcome};
use regex::Regex;
use std::io::Write;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// SQL for the name of the member that answers: the host name of its pod.
const MEMBER: &str = r"trim(both E'\n' from pg_read_file('/etc/hostname'))";
/// Of which timeline. Fails in recovery: who has no timeline of its own acknowledges nothing and answers no read.
const TIMELINE: &str = "('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int";

/// Microseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// One line is written at once, so none is torn apart by another.
pub fn note(entry: &Entry) {
    let line = format!("{entry}\n");
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// An operation of that client that begins now.
pub fn begun(client: &str, operation: Operation, key: &str) -> Entry {
    Entry {
        begin: now(),
        end: 0,
        client: client.into(),
        operation,
        key: key.into(),
        value: "-".into(),
        outcome: Outcome::Ok,
        member: None,
        timeline: None,
    }
}

fn matcher(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

fn parts(matcher: &Option<Regex>, text: &str) -> Option<Vec<String>> {
    let found = matcher.as_ref()?.captures(text)?;
    found.iter().skip(1).map(|part| part.map(|part| part.as_str().to_owned())).collect()
}

/// The question of an operation.
fn sql(operation: Operation, key: &str, value: &str) -> String {
    let place = format!("{MEMBER} || ' ' || {TIMELINE}");
    match operation {
        Operation::Insert => {
            format!("INSERT INTO chaos VALUES ('{key}', '{value}') RETURNING 'ok ' || id || ' ' || {place}")
        }
        Operation::Write => format!(
            "INSERT INTO registers AS r VALUES ('{key}', '{value}') ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value \
             RETURNING 'ok ' || '{value} ' || {place}"
        ),
        Operation::Append => format!(
            "INSERT INTO lists AS l VALUES ('{key}', '{value}') ON CONFLICT (key) DO UPDATE SET value = l.value || ',' || EXCLUDED.value \
             RETURNING 'ok ' || '{value} ' || {place}"
        ),
        Operation::List => {
            format!("SELECT 'ok ' || coalesce((SELECT value FROM lists WHERE key = '{key}'), 'nil') || ' ' || {place}")
        }
        _ => format!(
            "SELECT 'ok ' || coalesce((SELECT value FROM registers WHERE key = '{key}'), 'nil') || ' ' || {place}"
        ),
    }
}

/// What the answer to an operation means. A warning beside an answer may say that the wait for the standby was cut off: that is no acknowledgement. Nothing
/// was executed if no connection came about, or if the statement itself was refused.
fn judge(answer: &Answer, entry: &mut Entry) {
    static OK: LazyLock<Option<Regex>> = LazyLock::new(|| matcher(r"^ok ([^ ]+) ([a-z0-9-]+) ([0-9]+)$"));
    let text = &answer.text;
    entry.outcome = Outcome::Unknown;
    if let Some([value, member, timeline]) = parts(&OK, text).as_deref() {
        entry.outcome = Outcome::Ok;
        entry.value.clone_from(value);
        entry.member = Some(member.clone());
        entry.timeline = timeline.parse().ok();
    } else if answer.fresh && text.starts_with("psql: error: connection to server")
        || text.contains("ERROR:") && !text.contains("WARNING:") && !text.contains("FATAL:")
    {
        entry.outcome = Outcome::Fail;
    }
}

/// One operation on that key. Returns whether the session goes on.
pub async fn operate(session: &mut Session, client: &str, operation: Operation, key: &str) -> bool {
    let mut entry = begun(client, operation, key);
    if entry.writes() {
        entry.value = format!("{client}.{}", entry.begin);
        note(&Entry { end: entry.begin, outcome: Outcome::Begun, ..entry.clone() });
    }
    let answer = session.ask(&sql(operation, key, &entry.value)).await;
    judge(&answer, &mut entry);
    entry.end = now();
    note(&entry);
    answer.whole
}

/// The next operation of a client, in turn. A key is used for five seconds; later on it is read only, by some.
pub async fn next(session: &mut Session, client: &str, turn: &mut u32) -> bool {
    let bucket = now() / 5_000_000;
    let (register, list) = (format!("r{bucket}"), format!("l{bucket}"));
    let earlier = bucket - 1 - rand::random_range(0..8);
    *turn = (*turn + 1) % 7;
    match *turn {
        0 | 4 => operate(session, client, Operation::Insert, client).await,
        1 => operate(session, client, Operation::Write, &register).await,
        2 => operate(session, client, Operation::Append, &list).await,
        3 => operate(session, client, Operation::Read, &register).await,
        5 => operate(session, client, Operation::List, &list).await,
        _ if rand::random() => operate(session, client, Operation::Read, &format!("r{earlier}")).await,
        _ => operate(session, client, Operation::List, &format!("l{earlier}")).await,
    }
}

/// Whom a new connection reached; returns whether it is a primary.
pub async fn meet(session: &mut Session, client: &str) -> bool {
    static MET: LazyLock<Option<Regex>> = LazyLock::new(|| matcher(r"^(standby|primary) ([a-z0-9-]+) ([0-9]+)$"));
    let mut entry = begun(client, Operation::Meet, "-");
    entry.value = "none".into();
    let question = format!(
        "SELECT CASE WHEN pg_is_in_recovery() THEN 'standby ' ELSE 'primary ' END || {MEMBER} || ' ' || inet_client_port()"
    );
    let answer = session.ask(&question).await;
    if let (true, Some([met, member, port])) = (answer.whole, parts(&MET, &answer.text).as_deref()) {
        entry.value.clone_from(met);
        entry.member = Some(member.clone());
        entry.key.clone_from(port);
    }
    entry.end = now();
    note(&entry);
    entry.value == "primary"
}

/// What the server is. Returns whether the session goes on.
pub async fn look(session: &mut Session, client: &str) -> bool {
    static SEEN: LazyLock<Option<Regex>> =
        LazyLock::new(|| matcher(r"^(recovery|readonly|writable) ([0-9]+) ([a-z0-9-]+) ([0-9]+|-)$"));
    let mut entry = begun(client, Operation::Look, "-");
    entry.value = "silent".into();
    let question = format!(
        "SELECT CASE WHEN pg_is_in_recovery() THEN 'recovery' \
         WHEN current_setting('transaction_read_only')::boolean THEN 'readonly' ELSE 'writable' END \
         || ' ' || CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) \
         ELSE pg_current_wal_flush_lsn() END - '0/0' || ' ' || {MEMBER} || ' ' || \
         CASE WHEN pg_is_in_recovery() THEN '-' ELSE {TIMELINE}::text END"
    );
    let answer = session.ask(&question).await;
    if let Some([state, position, member, timeline]) = parts(&SEEN, &answer.text).as_deref() {
        entry.value.clone_from(state);
        entry.key.clone_from(position);
        entry.member = Some(member.clone());
        entry.timeline = timeline.parse().ok();
    }
    entry.end = now();
    note(&entry);
    answer.whole
}

/// What others do to go on writing without standbys: a primary waits for one if one streams, else for none. Returns whether the session goes on.
pub async fn prefer(session: &mut Session, client: &str) -> bool {
    const QUESTION: &str = "SELECT CASE WHEN pg_is_in_recovery() THEN 'recovery' \
        WHEN EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming') THEN 'ANY 1 (*)' ELSE '' END \
        || '|' || current_setting('synchronous_standby_names')";
    let answer = session.ask(QUESTION).await;
    if !answer.whole {
        return false;
    }
    let Some((wanted, present)) = answer.text.split_once('|') else { return true };
    if wanted == "recovery" || wanted == present {
        return true;
    }
    let set = session.ask(&format!("ALTER SYSTEM SET synchronous_standby_names = '{wanted}'")).await;
    if set.whole {
        session.ask("SELECT pg_reload_conf()").await;
    }
    let mut entry = begun(client, Operation::Prefer, "-");
    entry.end = entry.begin;
    entry.value = if wanted.is_empty() { "none".into() } else { "one".into() };
    note(&entry);
    session.lives()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str, fresh: bool) -> Entry {
        let mut entry = begun("rw", Operation::Insert, "rw");
        judge(&Answer { text: text.into(), whole: true, fresh }, &mut entry);
        entry
    }

    #[test]
    fn an_answer_is_an_acknowledgement_by_a_member_on_a_timeline() {
        let entry = judged("ok rw.1 postgres-0 3", true);
        assert_eq!((entry.outcome, entry.who(), entry.timeline), (Outcome::Ok, "postgres-0", Some(3)));
        assert_eq!(entry.value, "rw.1");
    }

    #[test]
    fn a_warning_or_no_word_leaves_a_write_unknown() {
        for text in [
            "",
            "WARNING:  canceling wait for synchronous replicationok rw.1 postgres-0 3",
            "FATAL:  ERROR: terminating",
        ] {
            assert_eq!(judged(text, false).outcome, Outcome::Unknown, "{text}");
        }
    }

    #[test]
    fn what_was_refused_had_no_effect() {
        let unreachable = "psql: error: connection to server at \"x\" failed";
        assert_eq!(judged("ERROR:  cannot execute INSERT in a read-only transaction", false).outcome, Outcome::Fail);
        assert_eq!(judged(unreachable, true).outcome, Outcome::Fail);
        // Of a session that had answered before, the statement may have been executed.
        assert_eq!(judged(unreachable, false).outcome, Outcome::Unknown);
    }
}
