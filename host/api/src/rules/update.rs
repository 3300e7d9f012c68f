//! The rules about how a changed template reaches the members, about versions of the data, and about zones.
use super::Rule;

/// Commands whose container holds the application, or its data. Hooks, `check` and `prepared` are executed in pods that have their container.
const IN_PLACE: [&str; 15] = [
    "status",
    "sequence",
    "seed",
    "primary",
    "secondary",
    "promote",
    "follow",
    "stop",
    "memberList",
    "memberAdd",
    "memberRemove",
    "memberPromote",
    "recover",
    "upgrade",
    "wipe",
];

/// The rule that these commands stay in their containers: a member that runs has no other one, and could be neither asked nor stopped.
pub(super) fn in_place() -> (String, String) {
    let place = |of: &str, name: &str| {
        format!(
            "(has({of}.commands.{name}.container) ? {of}.commands.{name}.container : \
             has({of}.container) ? {of}.container : {of}.template.spec.containers[0].name)"
        )
    };
    let same = |name: &str| {
        let (now, before) = (place("self", name), place("oldSelf", name));
        format!("(!has(self.commands.{name}) || !has(oldSelf.commands.{name}) || {now} == {before})")
    };
    let all = IN_PLACE.map(same).join(" && ");
    let say = "a command has to stay in its container (its own, else spec.container, else the first of template.spec.containers) while members run, because their pods \
               were made for that: keep the container and its name, or set replicas to 0 and wait until all pods are gone";
    (format!("oldSelf.replicas == 0 || ({all})"), say.into())
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        at: "spec",
        point_to: ".update.strategy",
        cel: "has(self.commands.primary) || self.update.strategy == 'Recreate'",
        say: "update.strategy has to be Recreate in an active/passive group (without commands.primary): no member has data that another one would copy",
    },
    Rule {
        at: "spec",
        point_to: ".zones.list",
        cel: "has(self.commands.primary) || !has(self.zones) || !has(self.zones.list) || self.zones.list.size() == 0",
        say: "zones.list has to be empty in an active/passive group (without commands.primary): spread its pods by topologySpreadConstraints in the template",
    },
    Rule {
        at: "spec",
        point_to: ".update.strategy",
        cel: "self.members.kind == 'Pods' || self.update.strategy == 'Recreate'",
        say: "update.strategy has to be Recreate unless members.kind is Pods: the members of a StatefulSet cannot be replaced one by one",
    },
    Rule {
        at: "spec",
        point_to: ".update.strategy",
        cel: "!has(self.commands.memberList) || self.update.strategy != 'SideBySide'",
        say: "update.strategy cannot be SideBySide with commands.memberList: twice as many members would have to agree meanwhile; choose Replace",
    },
    Rule {
        at: "spec",
        point_to: ".replicas",
        cel: "self.replicas <= 500 || self.update.strategy != 'SideBySide'",
        say: "replicas has to be at most 500 with update.strategy SideBySide: there are twice as many members meanwhile, and a group has at most 1000",
    },
    Rule {
        at: "spec",
        point_to: ".zones.list",
        cel: "self.members.kind == 'Pods' || !has(self.zones) || !has(self.zones.list) || self.zones.list.size() == 0",
        say: "zones.list has to be empty unless members.kind is Pods: all pods of a StatefulSet are made from one template",
    },
    Rule {
        at: "spec",
        point_to: ".zones.list",
        cel: "self.replicas == 0 || !has(self.zones) || !has(self.zones.list) || self.zones.list.size() == 0 || \
              (self.zones.list.map(z, has(z.replicas) ? z.replicas : 0).sum() <= self.replicas && \
              (self.zones.list.exists(z, !has(z.replicas)) || self.zones.list.map(z, z.replicas).sum() == self.replicas))",
        say: "the sum of the numbers in zones.list has to be replicas, or at most that if a zone has no number: change one of them, or remove the number of a zone",
    },
    Rule {
        at: "spec",
        point_to: ".version",
        cel: "!has(self.commands.upgrade) || has(self.version)",
        say: "version has to be there with commands.upgrade, which runs when version is later than that of the data: add it, or remove the command",
    },
    Rule {
        at: "spec",
        point_to: ".version",
        cel: "has(self.commands.primary) || !has(self.version)",
        say: "version has no effect in an active/passive group (without commands.primary), whose data Tanist does not know: remove it",
    },
    Rule {
        // Each version as one number. A write of the status changes no spec, so it is never refused.
        at: "",
        point_to: ".spec.version",
        cel: "!has(self.spec.version) || !has(oldSelf.spec.version) || !has(self.status) || !has(self.status.version) || \
              [[self.spec.version, oldSelf.spec.version, self.status.version].map(v, (v + '.0.0').split('.')) \
              .map(n, int(n[0]) * 1000000000000 + int(n[1]) * 1000000 + int(n[2]))].all(n, n[0] >= n[1] || n[0] >= n[2])",
        say: "spec.version has to be at least the version of the data (status.version), which no command converts back: raise it; to go back, \
              restore a backup into a new group",
    },
    Rule {
        at: "spec",
        point_to: ".update.onFailure",
        cel: "!has(self.commands.upgrade) || self.update.onFailure == 'Wait'",
        say: "update.onFailure has to be Wait with commands.upgrade: the programs of a former template may not read data that was converted",
    },
    Rule {
        at: "spec",
        point_to: ".update.upgradeOn",
        cel: "!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || !has(self.commands.memberList)",
        say: "update.upgradeOn has to be Primary with commands.memberList: members that agree are not all stopped at once",
    },
    Rule {
        at: "spec",
        point_to: ".update.upgradeOn",
        cel: "!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || self.volumeClaimTemplates.size() > 0",
        say: "update.upgradeOn has to be Primary without volumeClaimTemplates: the data would be gone with the pod before it is converted",
    },
    Rule {
        at: "spec",
        point_to: ".update.strategy",
        cel: "!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || self.update.strategy == 'Recreate'",
        say: "update.strategy has to be Recreate with commands.upgrade on a stopped member: the data stays with its members; set it, or set \
              update.upgradeOn to Primary",
    },
    Rule {
        at: "spec",
        point_to: ".update.batch",
        cel: "!has(self.commands.upgrade) || self.update.upgradeOn == 'Primary' || self.update.batch != 'None'",
        say: "update.batch cannot be None with commands.upgrade on a stopped member: all pods are replaced before the data is converted; choose Member, \
              or set update.upgradeOn to Primary",
    },
];
