//! Stories of whole groups under the shipped round, each a test of its own with a golden transcript in `NAME.txt`; docs/simulator.md says how to read, filter and
//! write them. `points.rs` tells the same stories with an operator that is stopped, or is shown changes wrongly.
//!
//! The fixture is said once, here: the members of a group run the register of [`tanist_sim::app`], and each story begins with the creation of its groups in an empty
//! cluster of four nodes. They form in the first seconds.
mod events;

use super::policies::Natural;
use events::{drain, each, leave_one, lose_a_copy, node, on_primary, pause, prefer, remove, remove_status, resize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tanist_api::ReplicaGroup;
use tanist_sim::app::group;
use tanist_sim::controllers::delete;
use tanist_sim::life::pods_by_operator;
use tanist_sim::points::{Event, Played, Story, Wrong, play};
use tanist_sim::strikes::users::change_template;
use tanist_sim::strikes::{damage, die, evict, forget, label, lose_volume, repair, restart};

/// A group with one primary.
fn one_primary(members: u64) -> Vec<ReplicaGroup> {
    vec![group("db", members, 1)]
}

/// A group with two.
fn two_primaries(members: u64) -> Vec<ReplicaGroup> {
    vec![group("db", members, 2)]
}

/// A group with one primary whose pods the operator makes itself.
fn own(members: u64) -> Vec<ReplicaGroup> {
    let mut group = group("db", members, 1);
    pods_by_operator(&mut group);
    vec![group]
}

/// The same with a new member in the place of one in which three commands in a row failed.
fn replaced_if_failing() -> Vec<ReplicaGroup> {
    let mut groups = own(3);
    groups.iter_mut().for_each(|group| group.spec.members.replace_after_failures = 3);
    groups
}

/// `NAME: GROUPS, SECOND => EVENT, ...;` for each story.
macro_rules! stories {
    ($($name:ident: $groups:expr $(, $at:literal => $event:expr)*;)*) => {
        /// All stories, in the order in which points are counted.
        pub fn stories() -> Vec<Story> {
            vec![$({
                let events: &[(u64, Event)] = &[$(($at, $event)),*];
                Story { name: stringify!($name), groups: $groups, events: events.to_vec() }
            }),*]
        }

        $(#[test]
        fn $name() {
            tell(stringify!($name));
        })*
    };
}

stories! {
    a_group_forms: one_primary(3);
    a_group_of_one_forms: one_primary(1);
    two_groups_form: vec![group("db", 2, 1), group("queue", 2, 1)];
    the_primarys_application_dies: one_primary(3), 20 => |s| on_primary(s, die);
    the_primarys_container_starts_anew: one_primary(3), 20 => |s| on_primary(s, restart);
    the_primarys_pod_is_deleted: one_primary(3), 20 => |s| on_primary(s, delete);
    the_primarys_pod_is_deleted_at_once: one_primary(3), 20 => |s| on_primary(s, forget);
    the_primarys_volume_is_lost: one_primary(3), 20 => lose_a_copy;
    a_followers_pod_is_deleted: one_primary(3), 20 => |s| delete(s, "db-2");
    a_followers_volume_is_lost: one_primary(3), 20 => |s| lose_volume(s, "db-1");
    the_node_of_the_primary_is_silent_and_comes_back: one_primary(3), 20 => |s| node(s, false), 90 => |s| node(s, true);
    the_node_of_the_primary_is_drained: one_primary(3), 20 => drain;
    another_member_is_to_lead: one_primary(3), 20 => |s| prefer(s, "db-2");
    the_primary_dies_while_another_member_is_to_lead: one_primary(3), 20 => |s| prefer(s, "db-2"), 21 => |s| on_primary(s, die);
    every_application_dies_at_once: one_primary(3), 20 => |s| each(s, die);
    every_pod_is_deleted_at_the_same_time: one_primary(3), 20 => |s| each(s, delete);
    the_primary_and_then_the_next_one_are_deleted: one_primary(3), 20 => |s| on_primary(s, delete), 23 => |s| on_primary(s, delete);
    a_group_grows: one_primary(1), 20 => |s| resize(s, 3);
    a_group_gets_smaller: one_primary(3), 20 => |s| resize(s, 2);
    a_group_gets_smaller_while_a_member_that_leaves_leads: one_primary(3), 20 => |s| prefer(s, "db-2"), 40 => leave_one;
    a_group_goes_to_no_members_and_back: one_primary(3), 20 => |s| resize(s, 0), 50 => |s| resize(s, 3);
    a_paused_group_loses_its_primary: one_primary(3), 20 => |s| pause(s, true), 22 => |s| on_primary(s, die), 40 => |s| pause(s, false);
    the_status_is_removed: one_primary(3), 20 => remove_status;
    the_status_is_removed_and_the_primary_dies: one_primary(3), 20 => remove_status, 40 => |s| on_primary(s, delete);
    the_primarys_pod_loses_its_label: one_primary(3),
        20 => |s| on_primary(s, |state, pod| label(state, pod, false)),
        40 => |s| on_primary(s, |state, pod| label(state, pod, true));
    a_group_with_two_primaries_forms: two_primaries(3);
    one_of_two_primaries_dies: two_primaries(3), 20 => |s| on_primary(s, die);
    one_of_two_primaries_loses_its_volume: two_primaries(3), 20 => lose_a_copy;
    both_primaries_die: two_primaries(3), 20 => |s| each(s, die);
    the_node_of_one_of_two_primaries_is_silent_and_comes_back: two_primaries(3), 20 => |s| node(s, false), 90 => |s| node(s, true);
    a_group_forms_whose_pods_the_operator_makes: own(3);
    a_pod_that_the_operator_made_is_deleted: own(3), 20 => |s| delete(s, "db-1");
    a_pod_that_the_operator_made_loses_its_volume: own(3), 20 => |s| lose_volume(s, "db-1");
    a_member_in_the_middle_goes: own(3), 20 => |s| remove(s, "db-1");
    the_primary_goes: own(3), 20 => |s| on_primary(s, remove);
    a_member_in_the_middle_goes_while_the_group_gets_smaller: own(3), 20 => |s| remove(s, "db-1"), 20 => |s| resize(s, 2);
    a_group_of_such_members_grows_and_gets_smaller: own(2), 20 => |s| resize(s, 3), 40 => |s| resize(s, 2), 60 => |s| resize(s, 3);
    a_group_of_such_members_goes_to_none_and_back: own(3), 20 => |s| resize(s, 0), 50 => |s| resize(s, 2);
    the_status_of_such_a_group_is_removed: own(3), 20 => |s| remove(s, "db-1"), 50 => remove_status;
    a_pod_that_the_operator_made_is_evicted: own(3), 20 => |s| evict(s, "db-1");
    a_changed_template_reaches_such_members: own(3), 20 => |s| change_template(s, "db", 7);
    one_of_two_primaries_leaves: two_primaries(3), 20 => |s| die(s, "db-0"), 21 => |s| resize(s, 2);
    a_member_fails_again_and_again: replaced_if_failing(), 20 => |s| damage(s, "db-1"), 90 => repair;
}

/// How a story goes in which that goes wrong.
pub fn told(story: &Story, wrong: Wrong) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(play(story, || Box::new(Natural), wrong))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/stories")
}

fn path_of(story: &str) -> PathBuf {
    folder().join(format!("{story}.txt"))
}

/// Whether transcripts are written instead of compared.
fn is_blessed() -> bool {
    std::env::var_os("TANIST_BLESS").is_some()
}

/// The groups of a story in one line each.
fn groups_of(story: &Story) -> String {
    let line = |group: &ReplicaGroup| {
        let (name, spec) = (group.metadata.name.as_deref().unwrap_or_default(), &group.spec);
        format!("group {name}: replicas {}, primaries {}\n", spec.replicas, serde_json::json!(spec.primaries))
    };
    story.groups.iter().map(line).collect()
}

/// Plays the story of that name. It has to go well, to end with "decide again: nothing", and to go as its transcript says; `TANIST_BLESS=1` writes that.
fn tell(name: &str) {
    let all = stories();
    let story = all.iter().find(|story| story.name == name).unwrap();
    let played = told(story, Wrong::Nothing);
    let log = || played.transcript.join("\n");
    assert!(
        played.broken.is_empty() && played.unwell.is_empty(),
        "{name} does not go well: {:?}\n{}",
        played.broken,
        log()
    );
    assert_eq!(played.transcript.last().map(|line| line.trim()), Some("decide again: nothing"), "{}", log());
    let (path, now) = (path_of(name), format!("{}{}\n", groups_of(story), log()));
    if is_blessed() {
        return std::fs::write(&path, now).unwrap();
    }
    let then = std::fs::read_to_string(&path).unwrap_or_default();
    if now != then {
        let (is, was): (Vec<_>, Vec<_>) = (now.lines().collect(), then.lines().collect());
        let line = (0..).find(|line| is.get(*line) != was.get(*line)).unwrap_or(0);
        let said = |lines: &[&str]| lines.get(line).map_or("(the end)".to_owned(), |line| (*line).to_owned());
        panic!(
            "the transcript differs; TANIST_BLESS=1 refreshes it\n{name}.txt:{}\n  was: {}\n  is:  {}\n\nnow it goes so:\n{now}",
            line + 1,
            said(&was),
            said(&is)
        );
    }
}

/// A transcript without a story would be compared with nothing.
#[test]
fn every_transcript_has_its_story() {
    let paths = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let texts: BTreeSet<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    let stories: BTreeSet<_> = stories().iter().map(|story| path_of(story.name)).collect();
    let alone: Vec<_> = texts.difference(&stories).collect();
    if is_blessed() {
        return alone.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
    assert!(alone.is_empty(), "TANIST_BLESS=1 removes what has no story: {alone:?}");
}
