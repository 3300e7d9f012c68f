//! The scripts by which shells and kubectl ask for completions: `tanist completion bash`.
use super::output::print;
use crate::args::Args;
use clap::{CommandFactory, ValueEnum};

/// The shells, and kubectl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// source <(tanist completion bash).
    Bash,
    /// eval (tanist completion elvish | slurp); commands and flags only.
    Elvish,
    /// tanist completion fish | source.
    Fish,
    /// The program kubectl_complete-tanist, for `kubectl tanist`.
    Kubectl,
    /// tanist completion powershell | Out-String | Invoke-Expression; commands and flags only.
    Powershell,
    /// source <(tanist completion zsh).
    Zsh,
}

/// Prints the script.
///
/// # Errors
/// When it cannot be written.
pub fn script(shell: Shell) -> anyhow::Result<()> {
    print(&text(shell))
}

fn text(shell: Shell) -> String {
    let of = |shell: clap_complete::Shell| {
        let mut bytes = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "tanist", &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    match shell {
        Shell::Bash => BASH.into(),
        Shell::Fish => FISH.into(),
        Shell::Kubectl => KUBECTL.into(),
        Shell::Zsh => ZSH.into(),
        Shell::Elvish => of(clap_complete::Shell::Elvish),
        Shell::Powershell => of(clap_complete::Shell::PowerShell),
    }
}

const BASH: &str = r#"# Completion of tanist for bash: source <(tanist completion bash)
_tanist() {
    local word meaning directive=4
    COMPREPLY=()
    while IFS=$'\t' read -r word meaning; do
        case $word in
            :*) directive=${word#:} ;;
            ?*) COMPREPLY+=("$word") ;;
        esac
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ $directive == 0 ]]; then compopt -o default 2>/dev/null; fi
    return 0
}
complete -F _tanist tanist
"#;

const ZSH: &str = r#"#compdef tanist
# Completion of tanist for zsh: source <(tanist completion zsh)
_tanist() {
    local word meaning directive=4
    local -a candidates
    while IFS=$'\t' read -r word meaning; do
        case $word in
            :*) directive=${word#:} ;;
            ?*) candidates+=("${word//:/\\:}${meaning:+:$meaning}") ;;
        esac
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#candidates} )); then
        _describe tanist candidates
    elif [[ $directive == 0 ]]; then
        _files
    fi
}
if [[ ${funcstack[1]} == _tanist ]]; then _tanist "$@"; else compdef _tanist tanist; fi
"#;

const FISH: &str = r#"# Completion of tanist for fish: tanist completion fish | source
function __tanist_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    tanist __complete $before[2..-1] "$current" 2>/dev/null | string match -v -r '^:'
end
complete -c tanist -f -a '(__tanist_complete)'
complete -c tanist -l kubeconfig -r -F
"#;

const KUBECTL: &str = r#"#!/bin/sh
# Completion of `kubectl tanist`: put this file on your PATH as kubectl_complete-tanist, beside kubectl-tanist, and make it executable.
exec kubectl-tanist __complete "$@"
"#;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may")]
mod tests {
    use super::*;
    use std::process::Command;

    // Bash passes all words up to the cursor, and uses the part before the tab.
    #[test]
    fn bash_offers_the_candidates() {
        let test = r#"
            tanist() { echo "asked: $*" >&2; printf 'db\tprimary db-1\nweb\n:4\n'; }
            COMP_WORDS=(tanist status -n shop ""); COMP_CWORD=4
            _tanist 2>/dev/null; printf '%s|' "${COMPREPLY[@]}"
            COMP_WORDS=(tanist status d); COMP_CWORD=2
            tanist() { printf '%s\n' "$*"; }
            _tanist; printf '%s' "${COMPREPLY[@]}""#;
        let done = Command::new("bash").args(["-c", &format!("{BASH}\n{test}")]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), "db|web|__complete status d", "{done:?}");
    }

    #[test]
    fn kubectl_asks_the_plugin_with_every_word() {
        let test = KUBECTL.replace("exec kubectl-tanist", "set -- __complete \"$@\"; printf '<%s>' \"$@\" #");
        let done = Command::new("sh").args(["-c", &test, "kubectl_complete-tanist", "status", ""]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), "<__complete><status><>", "{done:?}");
    }

    #[test]
    fn every_shell_has_a_script() {
        for shell in Shell::value_variants() {
            assert!(text(*shell).contains("tanist"), "{shell:?}");
        }
    }
}
