//! What the campaign found, each as its shortest conversation.
use super::answers::{self, piece};
use super::campaign::alone;
use super::dice::Dice;
use super::draw::{self, Case, Execution};
use super::frames;
use super::play::{Clients, play};
use super::printed::{Printed, Question, UNKNOWN};
use super::server::Server;
use super::talk::{Effect, Piece, Talk};

/// What the client concludes about a command that was started without a runner.
fn concluded(said: Vec<Piece>) -> String {
    let first = Execution { talk: draw::told(said), printed: Printed::default() };
    ended(&Case { seed: 0, question: Question::Start, runner: false, token: "t".into(), first, second: None })
}

fn ended(case: &Case) -> String {
    alone(async {
        let server = Server::start().await;
        let played = play(&server, &Clients::new(&server), case).await;
        assert_eq!(played.wrong, None);
        played.concluded
    })
}

#[test]
fn a_failure_with_exit_code_0_is_unknown() {
    let causes = r#"{"causes":[{"reason":"ExitCode","message":"0"}]}"#;
    let status = format!(r#"{{"status":"Failure","reason":"NonZeroExitCode","details":{causes}}}"#);
    assert_eq!(concluded(vec![draw::unclear("exit code 0", &status)]), UNKNOWN);
}

#[test]
fn an_exit_code_that_no_process_has_is_unknown() {
    for code in ["256", "-1", "+7"] {
        let causes = format!(r#"{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}"#);
        let status = format!(r#"{{"status":"Failure","reason":"NonZeroExitCode","details":{causes}}}"#);
        assert_eq!(concluded(vec![draw::unclear("exit code", &status)]), UNKNOWN, "{code}");
    }
}

#[test]
fn two_exit_codes_are_unknown() {
    let causes = r#"{"causes":[{"reason":"ExitCode","message":"1"},{"reason":"ExitCode","message":"7"}]}"#;
    let status = format!(r#"{{"status":"Failure","reason":"NonZeroExitCode","details":{causes}}}"#);
    assert_eq!(concluded(vec![draw::unclear("two exit codes", &status)]), UNKNOWN);
}

#[test]
fn a_success_with_the_reason_of_a_failure_is_unknown() {
    let status = r#"{"status":"Success","reason":"InternalError","message":"error dialing backend","code":500}"#;
    assert_eq!(concluded(vec![draw::unclear("success of a failure", status)]), UNKNOWN);
    let status = r#"{"status":"Success","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
    assert_eq!(concluded(vec![draw::unclear("success with an exit code", status)]), UNKNOWN);
}

#[test]
fn an_exit_code_without_a_failure_is_unknown() {
    let status = r#"{"reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#;
    assert_eq!(concluded(vec![draw::unclear("exit code of no failure", status)]), UNKNOWN);
}

// It ran: what is missing is another program, for instance one that the runtime needs.
#[test]
fn a_program_that_complained_is_not_missing() {
    let missing = || draw::status(&answers::missing(&mut Dice::new(1)));
    assert_eq!(concluded(vec![missing()]), "not started");
    let complaint = piece("stderr", frames::binary(2, b"!"), Effect::Stderr);
    assert_eq!(concluded(vec![complaint, missing()]), UNKNOWN);
}

// A shell whose own command is missing exits 127, and tells of it in the words of the runtime.
#[test]
fn the_words_of_a_missing_program_count_only_as_an_error_of_the_kubelet() {
    for reason in ["NonZeroExitCode", "Unknown"] {
        let status = format!(
            r#"{{"status":"Failure","reason":"{reason}","message":"exec: \"x\": executable file not found in $PATH"}}"#
        );
        assert_eq!(concluded(vec![draw::unclear("missing program", &status)]), UNKNOWN, "{reason}");
    }
}

#[test]
fn a_refusal_by_the_api_server_starts_nothing() {
    let first = Execution { talk: Talk::new(answers::refusal()), printed: Printed::default() };
    let case = Case { seed: 0, question: Question::Start, runner: false, token: "t".into(), first, second: None };
    assert_eq!(ended(&case), "not started");
}
