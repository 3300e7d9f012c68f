//! README's start on a cluster, command by command.
use crate::shop::{in_default, place, story};
use anyhow::{Context, Result, ensure};
use tanist_e2e::{Group, Outcome, kubectl};

const README: &str = include_str!("../../../../README.md");

// What a newcomer types after kind has made a cluster and got the images: the definition, the operator and the group come as it stands there.
#[test]
fn the_commands_of_readme_start_a_group() -> Outcome {
    story("readme", async |shop| {
        let commands = commands()?;
        ensure!(commands.len() == 5, "README has other commands than those that are known here: {commands:?}");
        for arguments in commands {
            // The last one shows what happens until it is interrupted.
            if arguments.last().map(String::as_str) == Some("-w") {
                continue;
            }
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            kubectl(&arguments).with_context(|| format!("README's kubectl {}", arguments.join(" ")))?;
        }
        let ready = Group::named(&shop.client, "default", "register").ready(240).await;
        if ready.is_ok() {
            // The operator lets the group go; its volumes would stay.
            in_default(&["delete", "rg", "register", "--wait=true", "--timeout=60s"])?;
            in_default(&["delete", "pvc", "-l", "tanist.dev/group=register"])?;
            kubectl(&["delete", "-k", &place("deploy/default"), "--wait=true"])?;
        }
        ready.map(drop)
    })
}

/// The arguments of each kubectl in README's first block of commands, with the paths of this checkout.
fn commands() -> Result<Vec<Vec<String>>> {
    let start = README.split("## Start on your cluster").nth(1).context("README has no start on a cluster")?;
    let block = start.lines().skip_while(|line| !line.starts_with("    "));
    let lines = block.take_while(|line| line.starts_with("    ")).map(|line| line.split('#').next().unwrap_or(line));
    let calls = lines.flat_map(|line| line.split("&&").map(str::trim)).filter_map(|call| call.strip_prefix("kubectl "));
    let path = |word: &str| if word.contains('/') && !word.starts_with("crd/") { place(word) } else { word.to_owned() };
    Ok(calls.map(|call| call.split_whitespace().map(path).collect()).collect())
}
