//! Prepares pods for commands: `tanist-run` becomes the command of the containers that commands name, or only a hook is added.
use super::pods::{containers, list, object, unless_set};
use super::{BuildError, Settings, probe};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tanist_api::ReplicaGroup;
use tanist_api::spec::default;
use tanist_protocol::{options as o, place};

/// The volume that holds the runner and its state.
const VOLUME: &str = "tanist";

/// The init container that copies the runner to that volume.
const INSTALLER: &str = "tanist-run";

/// The user ID of the installer, which belongs to no user. Every user of the pod may write to the volume, so any ID works.
const INSTALLER_USER: u32 = 65532;

/// Makes the runner the command of every container that a command names (docs/rules.md, "Runner").
pub(super) fn inject(
    group: &ReplicaGroup,
    settings: &Settings,
    spec: &mut Map<String, Value>,
) -> Result<(), BuildError> {
    let named = named(group)?;
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(default::GRACE.into());

    let asked = group.spec.container_of(&group.spec.commands.status);
    let mut resources = Value::Null;
    for container in containers(spec, "containers")? {
        let container = container?;
        if container.get("name").and_then(Value::as_str) == asked {
            resources = container.get("resources").cloned().unwrap_or_default();
        }
    }

    let volumes = list(spec, "volumes", "template.spec")?;
    if volumes.iter().any(|volume| volume.get("name").is_some_and(|name| name == VOLUME)) {
        return Err(BuildError::Taken(format!("the volume name {VOLUME}")));
    }
    volumes.push(json!({"name": VOLUME, "emptyDir": {}}));

    let installers = list(spec, "initContainers", "template.spec")?;
    if installers.iter().any(|container| container.get("name").is_some_and(|name| name == INSTALLER)) {
        return Err(BuildError::Taken(format!("the container name {INSTALLER}")));
    }
    installers.insert(0, installer(settings, resources));

    let mut missing = named.clone();
    for container in containers(spec, "containers")? {
        let container = container?;
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if missing.remove(name.as_str()) {
            wrap(group, &name, grace, container)?;
        }
    }
    missing.first().map_or(Ok(()), |name| Err(BuildError::NoContainer((*name).to_owned())))
}

/// Without a runner, a `preStop` hook makes the kubelet call `stop` before it ends the container, unless the user has set a hook.
pub(super) fn stop_by_hook(group: &ReplicaGroup, spec: &mut Map<String, Value>) -> Result<(), BuildError> {
    named(group)?;
    let Some(stop) = &group.spec.commands.stop else { return Ok(()) };
    let place = group.spec.container_of(stop).unwrap_or_default();
    for container in containers(spec, "containers")? {
        let container = container?;
        if container.get("name").is_some_and(|name| name == place) {
            unless_set(
                object(container, "lifecycle", "a container")?,
                "preStop",
                json!({"exec": {"command": stop.exec}}),
            );
            return Ok(());
        }
    }
    Err(BuildError::NoContainer(place.to_owned()))
}

/// The names of the containers in which commands run.
fn named(group: &ReplicaGroup) -> Result<BTreeSet<&str>, BuildError> {
    let none = || BuildError::Form("template.spec.containers has to name a container".into());
    group.spec.commands.by_name().map(|(_, command)| group.spec.container_of(command).ok_or_else(none)).collect()
}

/// The init container that installs the runner. It requests the resources of the container of `status`: a pod's request is the larger of its
/// largest init container and the sum of its containers, so the pod requests no more than before, and its quality-of-service class stays.
fn installer(settings: &Settings, resources: Value) -> Value {
    let mut installer = json!({
        "name": INSTALLER,
        "image": settings.runner_image,
        "imagePullPolicy": "IfNotPresent",
        "command": [place::PROGRAM_IN_IMAGE, o::INSTALL, place::PROGRAM],
        "volumeMounts": [{"name": VOLUME, "mountPath": place::MOUNT}],
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": INSTALLER_USER,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"}
        }
    });
    if let (Some(installer), false) = (installer.as_object_mut(), resources.is_null()) {
        installer.insert("resources".into(), resources);
    }
    installer
}

/// What the runner of a container executes by itself: `status` again and again, and `stop` when its pod ends.
fn own_commands(group: &ReplicaGroup, container: &str) -> Vec<(&'static str, String)> {
    let commands = &group.spec.commands;
    let here = |command| group.spec.container_of(command) == Some(container);
    let mut own = Vec::new();
    if here(&commands.status) {
        own.push((o::STATUS_INTERVAL, group.spec.status_interval_seconds.to_string()));
        own.push((o::STATUS_TIMEOUT, commands.status.timeout().to_string()));
        own.extend(commands.status.exec.iter().map(|arg| (o::STATUS_ARG, literal(arg))));
    }
    if let Some(stop) = commands.stop.as_ref().filter(|stop| here(stop)) {
        own.push((o::STOP_TIMEOUT, stop.timeout().to_string()));
        own.extend(stop.exec.iter().map(|arg| (o::STOP_ARG, literal(arg))));
    }
    own
}

/// Whether a runner of the pod executes another `status` or `stop` by itself than the group has now, or for another time: nothing but another pod changes that. Only what both say is compared, so that another
/// version of the operator, which may say more or less, restarts nobody.
#[must_use]
pub fn has_former_commands(group: &ReplicaGroup, pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let runners = containers.filter_map(|container| Some((container.name.as_str(), container.command.as_ref()?)));
    runners.filter(|(_, argv)| argv.first().is_some_and(|program| program == place::PROGRAM)).any(|(name, argv)| {
        let now = own_commands(group, name);
        // The program and its verb, then options with their values.
        let options = argv.get(2..).unwrap_or_default();
        let says = |option: &str| -> Vec<&String> {
            let pairs = options.chunks_exact(2);
            pairs
                .filter_map(|pair| if let [own, value] = pair { (own == option).then_some(value) } else { None })
                .collect()
        };
        let wants = |option: &str| -> Vec<&String> {
            now.iter().filter(|(own, _)| *own == option).map(|(_, value)| value).collect()
        };
        [o::STATUS_INTERVAL, o::STATUS_TIMEOUT, o::STATUS_ARG, o::STOP_TIMEOUT, o::STOP_ARG].into_iter().any(|option| {
            let (says, wants) = (says(option), wants(option));
            !says.is_empty() && !wants.is_empty() && says != wants
        })
    })
}

/// Makes the runner the command of one container.
fn wrap(group: &ReplicaGroup, name: &str, grace: u64, container: &mut Map<String, Value>) -> Result<(), BuildError> {
    let commands = &group.spec.commands;
    let here = |command| group.spec.container_of(command) == Some(name);
    // The probe follows starts and stops, which the runner sees only in its own container.
    let starts = [commands.primary.as_ref(), commands.seed.as_ref(), commands.secondary.as_ref()];
    let probed = here(&commands.status) && starts.into_iter().flatten().all(here);
    let own = probed.then(|| probe::read(container)).flatten();
    let mut argv: Vec<String> = vec![place::PROGRAM.into(), o::SERVE.into(), o::STATE.into(), place::state(name)];
    let mut add = |option: &str, value: String| argv.extend([option.to_owned(), value]);
    if here(&commands.status) {
        add(o::LISTEN, format!("0.0.0.0:{}", place::PORT));
    }
    own_commands(group, name).into_iter().for_each(|(option, value)| add(option, value));
    add(o::GRACE, grace.to_string());
    container.insert("command".into(), json!(argv));
    container.remove("args");

    let mounts = list(container, "volumeMounts", "a container")?;
    let below = format!("{}/", place::MOUNT);
    let path = |mount: &Value| Some(mount.get("mountPath")?.as_str()?.trim_end_matches('/').to_owned());
    if mounts.iter().filter_map(path).any(|path| path == place::MOUNT || path.starts_with(&below)) {
        return Err(BuildError::Taken(format!("the path {}", place::MOUNT)));
    }
    mounts.push(json!({"name": VOLUME, "mountPath": place::MOUNT}));
    if probed {
        // One result is enough in both directions: the runner itself waits for three failures in a row.
        let probe = json!({
            "httpGet": {"path": place::READY, "port": place::PORT},
            "periodSeconds": 1,
            "timeoutSeconds": 2,
            "failureThreshold": 1
        });
        match own {
            // A container has only one readiness probe, by which a death is noticed at once. So the runner carries out the user's probe as well.
            Some(own) => {
                container.insert("readinessProbe".into(), probe);
                let env = list(container, "env", "a container of template.spec")?;
                env.retain(|variable| {
                    variable.get("name").is_none_or(|name| name != place::OPTIONS && name != place::POD_IP)
                });
                env.push(json!({"name": place::OPTIONS, "value": literal(&own.lines())}));
                if own.connects {
                    env.push(json!({"name": place::POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}));
                }
            }
            // A probe that the runner cannot carry out stays as it is. Then a death is noticed within `resyncIntervalSeconds`.
            None => unless_set(container, "readinessProbe", probe),
        }
    }
    Ok(())
}

/// An argument that the kubelet passes on unchanged. In a container's command the kubelet replaces `$(NAME)` and `$$`, in an exec it does not;
/// the same argv must mean the same in both.
fn literal(argument: &str) -> String {
    argument.replace('$', "$$")
}
