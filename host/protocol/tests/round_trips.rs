//! What is written is read, and nothing else is: properties of every form that has both directions.
use proptest::prelude::*;
use std::time::Duration;
use tanist_protocol::frame::{Frame, NO_TOKEN};
use tanist_protocol::options;
use tanist_protocol::outcome::Outcome;
use tanist_protocol::printed::Printed;
use tanist_protocol::why::{Why, Word};

fn why() -> impl Strategy<Value = Why> {
    prop_oneof![
        prop::sample::select(Word::ALL).prop_map(Why::from),
        "[a-z0-9-]{1,20}".prop_map(|text| Why::said(&text))
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u8>().prop_map(Outcome::Exited),
        why().prop_map(Outcome::NotStarted),
        why().prop_map(Outcome::Unknown),
        Just(Outcome::Running),
        Just(Outcome::Interrupted),
        Just(Outcome::Void),
    ]
}

fn token() -> impl Strategy<Value = String> {
    prop_oneof![Just(NO_TOKEN.to_owned()), "[A-Za-z0-9._-]{1,40}"]
}

/// Output that looks like the end of a frame now and then.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let end = prop_oneof![Just("\ntanist-end -\n"), Just("\ntanist-end t\n"), Just("\n"), Just("")];
    (prop::collection::vec(any::<u8>(), 0..60), end).prop_map(|(bytes, end)| [&bytes, end.as_bytes()].concat())
}

prop_compose! {
    fn frame()(
        token in token(),
        outcome in outcome(),
        stdout in output(),
        stderr in output(),
        cut in any::<bool>(),
        processes in any::<u32>(),
        running in prop::option::of("[A-Za-z0-9._-]{1,40}"),
    ) -> Frame {
        Frame { token, outcome, stdout, stderr, cut, processes, running }
    }
}

proptest! {
    #[test]
    fn a_frame_that_is_written_is_read(frame in frame()) {
        prop_assert_eq!(Frame::parse(&frame.to_bytes()), Some(frame));
    }

    // S12
    #[test]
    fn no_prefix_of_a_frame_is_a_frame(frame in frame()) {
        for bytes in [frame.to_bytes(), frame.to_bytes_of_status(), frame.to_bytes_after(Duration::from_secs(1))] {
            for length in 0..bytes.len() {
                prop_assert_eq!(Frame::parse(&bytes[..length]), None, "cut at {}", length);
                prop_assert_eq!(Printed::read(&bytes[..length], &frame.token), None, "cut at {}", length);
            }
        }
    }

    #[test]
    fn the_operator_reads_what_the_runner_wrote(frame in frame(), status in frame(), after in 0_u64..1 << 40) {
        let status = Frame { token: NO_TOKEN.into(), ..status };
        let after = Duration::from_millis(after);
        let both = [frame.to_bytes(), status.to_bytes_after(after)].concat();
        let (answer, said) = Printed::read_with_status(&both, &frame.token).unwrap();
        prop_assert_eq!((&answer.outcome, &answer.stdout, answer.cut), (&frame.outcome, &frame.stdout, frame.cut));
        prop_assert_eq!((answer.processes, answer.after), (Some(frame.processes), None));
        let said = said.unwrap();
        prop_assert_eq!((said.outcome, said.after, said.processes), (status.outcome, Some(after), Some(status.processes)));
        prop_assert_eq!(Printed::read(&both, "another"), None);
    }

    // Decision 0013
    #[test]
    fn a_later_runner_may_say_more(frame in frame(), key in "[a-z]{8,12}-", value in "[!-~]{0,9}") {
        let bytes = frame.to_bytes();
        let head = bytes.iter().position(|b| *b == b'\n').unwrap();
        let more = [&bytes[..head], format!(" {key}={value}").as_bytes(), &bytes[head..]].concat();
        prop_assert_eq!(Printed::read(&more, &frame.token), Printed::read(&bytes, &frame.token));
        prop_assert_eq!(Frame::parse(&more), None);
    }

    // What is read is written in the same bytes, so a frame has one form.
    #[test]
    fn damage_is_never_another_form_of_a_frame(frame in frame(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = frame.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(read) = Frame::parse(&bytes) {
            prop_assert_eq!(read.to_bytes(), bytes);
        }
    }

    #[test]
    fn an_outcome_that_is_written_is_read(outcome in outcome()) {
        prop_assert_eq!(Outcome::read(&outcome.to_string()), Some(outcome));
    }

    #[test]
    fn options_survive_the_environment(mut words in prop::collection::vec("([a\\\\\n $'-]|[^\r]){0,8}", 0..6)) {
        // The limits of the form: see `options::lines`.
        words.push("0".into());
        let lines = options::lines(words.iter().map(String::as_str));
        prop_assert_eq!(options::words(&lines).collect::<Vec<_>>(), words);
    }
}
