//! What commands are told: their arguments, and their environment.
use super::super::support::policies::Natural;
use super::resize::growing;
use super::upgrade::stopped;
use tanist_core::decide::decide;
use tanist_core::plan::Action;

// Commands get the version of the data, in a decision and when they only ask.
#[test]
fn commands_are_told_the_version_of_the_data() {
    let s = stopped();
    let plan = decide(&s, &Natural);
    let env = plan.actions.iter().find_map(|a| if let Action::Run { env, .. } = a { Some(env.clone()) } else { None });
    assert_eq!(env, Some(vec!["TANIST_VERSION=15".to_owned()]));
    assert_eq!(tanist_core::state::environment(&s), ["TANIST_VERSION=15"]);
    let mut none = s;
    none.record.version = None;
    assert_eq!(tanist_core::state::environment(&none), [""; 0]);
}

// The arguments of the command.
#[test]
fn both_versions_are_arguments() {
    let argv = |exec: &[&str]| {
        let mut s = stopped();
        s.group.commands.upgrade.as_mut().unwrap().exec = exec.iter().map(ToString::to_string).collect();
        let plan = decide(&s, &Natural);
        plan.actions.iter().find_map(|a| if let Action::Run { argv, .. } = a { Some(argv.join(" ")) } else { None })
    };
    assert_eq!(argv(&["up"]).as_deref(), Some("up 15 17"));
    assert_eq!(argv(&["up", "--to", "$(TO)"]).as_deref(), Some("up --to 17"));
    assert_eq!(argv(&["up", "$(TO)", "$(FROM)", "-v"]).as_deref(), Some("up 17 15 -v"));
}

fn arguments(exec: &[&str]) -> Vec<String> {
    let mut s = growing(3);
    s.group.commands.membership.as_mut().unwrap().add.exec = exec.iter().map(|word| (*word).to_owned()).collect();
    let plan = decide(&s, &Natural);
    let run =
        plan.actions.iter().find_map(|a| if let Action::Run { argv, .. } = a { Some(argv.clone()) } else { None });
    run.unwrap_or_else(|| panic!("{:#?}", plan.waits))
}

// D9: the command is given the name of the new member and its address, where it asks for them or at the end.
#[test]
fn a_change_is_told_whom_it_is_about() {
    let address = "db-3.db.ns.svc.cluster.local";
    assert_eq!(arguments(&["add"]), ["add", "db-3", address]);
    assert_eq!(
        arguments(&["add", "--url=x", "$(ADDRESS)", "--name", "$(NAME)"]),
        ["add", "--url=x", address, "--name", "db-3"]
    );
}
