//! Exit codes when nobody reads the output.
use super::*;

// P42: whoever reads the output may go, as `head` does: the exit code is that of what was found.
#[test]
fn a_closed_pipe_makes_no_failure_a_success() {
    let other = CASES.replace("choose: db-1", "choose: db-0");
    let folder = folder(&[("good.cases.yaml", CASES), ("wrong.cases.yaml", &other)]);
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer
    };
    for (code, words) in [(0, "test good.cases.yaml"), (1, "test wrong.cases.yaml"), (2, "test none.cases.yaml")] {
        let mut command = command(env!("CARGO_BIN_EXE_tanist"), folder.path());
        command.arg("policy").args(words.split(' ')).stdout(closed()).stderr(closed());
        assert_eq!(command.status().unwrap().code(), Some(code), "{words}");
    }
}
