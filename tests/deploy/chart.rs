//! The chart: what helm and the schemas of Kubernetes say of what it renders, and its pods played on this machine.

mod kubelet;
mod rolling;

use crate::containers::documents;
use escapement_tests::{checkout, piped, tool};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;

fn helm() -> Option<PathBuf> {
    tool("helm", "`cargo verify` installs it")
}

/// Runs helm on the chart with these values.
fn with_values(helm: &Path, command: &[&str], values: &Value) -> Output {
    let chart = checkout::root().join("deploy/chart");
    let mut arguments = command.to_vec();
    arguments.extend([chart.to_str().unwrap(), "--values", "-"]);
    // JSON is YAML.
    piped(helm, &arguments, &values.to_string()).unwrap()
}

/// What the chart renders. `None` if a tool is missing, which is noted.
fn rendered(values: &Value) -> Option<Vec<Value>> {
    let output = with_values(
        &helm()?,
        &["template", "try", "--namespace", "of-the-test"],
        values,
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{values}: {said}");
    documents(&String::from_utf8(output.stdout).unwrap())
}

/// What is meant to be used: everything encrypted, both sides with certificates, a policy.
fn secure() -> Value {
    json!({
        "tls": { "existingSecret": "server", "clientAuth": "required" },
        "access": { "policy": "version = 1\n" },
        "worker": { "enabled": true, "tlsSecret": "worker" },
    })
}

/// The same, with certificates that cert-manager issues, and with workers that Kubernetes scales.
fn issued() -> Value {
    json!({
        "tls": {
            "certManager": { "issuerRef": { "name": "ours", "kind": "ClusterIssuer" }, "dnsNames": ["plans.example"] },
            "clientAuth": "required",
        },
        "access": { "policy": "version = 1\n" },
        "worker": {
            "enabled": true,
            "maxInFlight": 20,
            "hpa": { "enabled": true, "maxReplicas": 40, "matchLabels": { "service": "try-escapement" } },
        },
    })
}

/// The least that is served: consent in the place of all of that.
fn open() -> Value {
    json!({ "tls": { "allowPlaintext": true }, "access": { "allowAnonymous": true } })
}

/// Values that make a difference to what is rendered.
fn combinations() -> Vec<Value> {
    let mut everything = secure();
    everything["metrics"] = json!({
        "serviceMonitor": { "enabled": true },
        "podMonitor": { "enabled": true },
        "alerts": { "enabled": true },
        "dashboards": { "enabled": true },
    });
    everything["worker"]["keda"] = json!({ "enabled": true, "minReplicas": 0, "authentication": "scaler" });
    let placed = json!({
        "args": ["--declare-action=billing.*"],
        "env": [{ "name": "ESCAPEMENT_LOG", "value": "debug" }],
        "podAnnotations": { "a": "b" },
        "nodeSelector": { "disk": "local" },
        "tolerations": [{ "key": "escapement", "operator": "Exists" }],
        "affinity": { "nodeAffinity": {} },
        "extraVolumes": [{ "name": "more", "emptyDir": {} }],
        "extraVolumeMounts": [{ "name": "more", "mountPath": "/more" }],
    });
    let mut with_token = secure();
    with_token["worker"]["tlsCertificate"] = json!(false);
    with_token["worker"]["tokenSecret"] = json!("token");
    with_token["tls"]["clientAuth"] = json!("optional");
    with_token["access"] = json!({ "existingSecret": "policy" });
    let mut hatches = open();
    hatches["orchestrator"] = placed.clone();
    hatches["worker"] = placed;
    hatches["worker"]["enabled"] = json!(true);
    hatches["image"] = json!({ "orchestratorDigest": format!("sha256:{}", "0".repeat(64)), "pullSecrets": [{ "name": "pull" }] });
    hatches["store"] = json!({ "size": "1Ti", "className": "fast" });
    hatches["networkPolicy"] = json!({
        "callers": [],
        "monitoring": [{ "namespaceSelector": { "matchLabels": { "name": "monitoring" } } }],
        "egress": [{ "to": [{ "ipBlock": { "cidr": "10.0.0.0/8" } }] }],
        "workerEgress": [{ "to": [{ "ipBlock": { "cidr": "192.0.2.0/24" } }] }],
    });
    let more = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "{{ .Release.Name }}-more" } });
    hatches["extraObjects"] = json!([more]);
    let mut without_policy = open();
    without_policy["networkPolicy"] = json!({ "enabled": false });
    vec![
        open(),
        secure(),
        everything,
        with_token,
        hatches,
        without_policy,
        issued(),
    ]
}

#[test]
fn helm_finds_nothing_in_the_chart() {
    let Some(helm) = helm() else { return };
    let output = with_values(&helm, &["lint", "--strict", "--quiet"], &secure());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("WARNING"), "{said}");
}

#[test]
fn kubernetes_takes_what_every_combination_renders() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let mut all = Vec::new();
    for values in combinations() {
        let Some(rendered) = rendered(&values) else { return };
        all.extend(rendered);
    }
    // Their schemas belong to others, and are not at hand.
    let (others, own): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|object| {
        let of = object["apiVersion"].as_str().unwrap();
        ["keda.sh/", "monitoring.coreos.com/", "cert-manager.io/"]
            .iter()
            .any(|other| of.starts_with(other))
    });
    assert_eq!(others.len(), 6, "{others:?}");
    let own = Value::Array(own).to_string();
    let program = "import json, kubernetes_validate, sys\n\
                   for one in json.load(sys.stdin):\n\
                   \x20   for version in ('1.30', '1.37'):\n\
                   \x20       kubernetes_validate.validate(one, version, strict=True)\n";
    let judge = |objects: &str| piped(&python, &["-W", "ignore", "-c", program], objects).unwrap();
    let judged = judge(&own);
    assert!(
        judged.status.success(),
        "{}",
        String::from_utf8_lossy(&judged.stderr)
    );
    let misspelt = judge(&own.replace("readinessProbe", "readynessProbe"));
    assert!(!misspelt.status.success(), "a misspelt field is not noticed");
}

#[test]
fn every_pod_is_restricted() {
    for values in combinations() {
        let Some(rendered) = rendered(&values) else { return };
        let pods = rendered
            .iter()
            .filter(|object| object["spec"]["template"].is_object());
        for pod in pods.map(|object| &object["spec"]["template"]["spec"]) {
            assert_eq!(pod["automountServiceAccountToken"], false);
            let security = &pod["securityContext"];
            assert_eq!(
                (&security["runAsNonRoot"], &security["runAsUser"]),
                (&json!(true), &json!(65532))
            );
            assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
            for container in pod["containers"].as_array().unwrap() {
                let security = &container["securityContext"];
                let expected = json!({
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                });
                assert_eq!(*security, expected);
                assert!(container["resources"]["limits"]["memory"].is_string());
            }
        }
    }
}

#[test]
fn values_that_are_wrong_or_serve_by_accident_are_refused() {
    let Some(helm) = helm() else { return };
    let with = |path: &str, value: Value| {
        let mut values = secure();
        *values.pointer_mut(path).unwrap() = value;
        values
    };
    let cases = [
        (json!({}), "tls.existingSecret"),
        (
            json!({ "tls": { "allowPlaintext": true } }),
            "access: give one of",
        ),
        (
            json!({ "tls": { "allowPlaintext": true, "existingSecret": "a" } }),
            "not several",
        ),
        (
            json!({ "tls": { "existingSecret": "a", "certManager": { "issuerRef": { "name": "b" } } } }),
            "not several",
        ),
        (
            with("/tls", json!({ "certManager": { "issuerRef": "ours" } })),
            "issuerRef",
        ),
        (
            with(
                "/tls",
                json!({ "certManager": { "issuerRef": { "name": "a" }, "duration": "90d" } }),
            ),
            "duration",
        ),
        (
            with(
                "/worker",
                json!({ "enabled": true, "tlsSecret": "a", "keda": { "enabled": true }, "hpa": { "enabled": true } }),
            ),
            "not both",
        ),
        (
            with(
                "/worker",
                json!({ "enabled": true, "tlsSecret": "a", "hpa": { "enabled": true, "minReplicas": 0 } }),
            ),
            "minReplicas",
        ),
        (
            with("/access", json!({ "policy": "a", "allowAnonymous": true })),
            "access: give one of",
        ),
        (with("/worker", json!({ "enabled": true })), "worker.tlsSecret"),
        (with("/worker", json!({ "enabeld": true })), "enabeld"),
        (
            with("/tls", json!({ "existingSecret": "a", "clientAuth": "maybe" })),
            "clientAuth",
        ),
        (json!({ "replicas": 3 }), "replicas"),
    ];
    for (values, said) in cases {
        let output = with_values(&helm, &["template", "try"], &values);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && complained.contains(said),
            "{values}: {complained}"
        );
    }
}

#[test]
fn what_belongs_to_others_has_the_fields_that_they_read() {
    let Some(rendered) = rendered(&combinations()[2]) else {
        return;
    };
    let kind = |kind: &str| rendered.iter().find(|object| object["kind"] == kind).unwrap();
    let scaled = &kind("ScaledObject")["spec"];
    assert_eq!(
        scaled["scaleTargetRef"]["name"],
        kind("Deployment")["metadata"]["name"]
    );
    let expected =
        json!({ "scalerAddress": "try-escapement.of-the-test:7400", "actions": "*", "slotsPerWorker": "16" });
    assert_eq!(scaled["triggers"][0]["metadata"], expected);
    assert_eq!(scaled["minReplicaCount"], 0);
    assert!(
        kind("Deployment")["spec"].get("replicas").is_none(),
        "KEDA says how many"
    );
    let monitor = &kind("ServiceMonitor")["spec"];
    let labels = &kind("Service")["metadata"]["labels"];
    for (label, value) in monitor["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&labels[label], value);
    }
    assert_eq!(
        labels[monitor["jobLabel"].as_str().unwrap()],
        "escapement",
        "the job that rules ask for"
    );
    let monitor = &kind("PodMonitor")["spec"];
    let pod = &kind("Deployment")["spec"]["template"];
    for (label, value) in monitor["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&pod["metadata"]["labels"][label], value);
    }
    let [endpoint] = &monitor["podMetricsEndpoints"].as_array().unwrap()[..] else {
        panic!("{monitor}")
    };
    assert_eq!(pod["spec"]["containers"][0]["ports"][0]["name"], endpoint["port"]);
    let job = json!([{ "targetLabel": "job", "replacement": "escapement-worker" }]);
    assert_eq!(
        endpoint["relabelings"], job,
        "the job that the dashboard asks for"
    );
    let rules = std::fs::read_to_string(checkout::root().join("deploy/monitoring/rules.yaml")).unwrap();
    assert_eq!(kind("PrometheusRule")["spec"], documents(&rules).unwrap()[0]);
    let boards = kind("ConfigMap")["data"].as_object().unwrap();
    assert_eq!(boards.len(), 7);
    for board in boards.values() {
        assert!(serde_json::from_str::<Value>(board.as_str().unwrap()).is_ok());
    }
}

/// The one object of a kind and of this name.
fn named<'a>(rendered: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
    let mut found = rendered.iter().filter(is_it);
    let first = found.next().unwrap_or_else(|| panic!("{kind} {name}"));
    assert!(found.next().is_none(), "{kind} {name} is there twice");
    first
}

#[test]
fn who_scrapes_reaches_the_figures_and_nothing_else_reaches_a_worker() {
    let values = combinations();
    let [Some(closed), Some(open)] = [&values[2], &values[4]].map(rendered) else {
        return;
    };
    let policy =
        |rendered: &[Value]| named(rendered, "NetworkPolicy", "try-escapement-worker")["spec"].clone();
    assert_eq!(policy(&closed)["policyTypes"], json!(["Ingress", "Egress"]));
    assert!(policy(&closed).get("ingress").is_none(), "nobody but probes");
    // A handler reaches names and its orchestrator, and what the values say.
    let reached = policy(&closed)["egress"].clone();
    let to_dns =
        json!([{ "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "kube-system" } } }]);
    assert_eq!(
        (reached.as_array().unwrap().len(), &reached[0]["to"]),
        (2, &to_dns)
    );
    let labels = &reached[1]["to"][0]["podSelector"]["matchLabels"];
    let orchestrator = named(&closed, "NetworkPolicy", "try-escapement");
    assert_eq!(labels, &orchestrator["spec"]["podSelector"]["matchLabels"]);
    assert_eq!(reached[1]["ports"], json!([{ "protocol": "TCP", "port": 7400 }]));
    assert_eq!(
        policy(&open)["egress"][2]["to"][0]["ipBlock"]["cidr"],
        "192.0.2.0/24"
    );
    let expected = json!([{
        "from": [{ "namespaceSelector": { "matchLabels": { "name": "monitoring" } } }],
        "ports": [{ "protocol": "TCP", "port": "metrics" }],
    }]);
    assert_eq!(policy(&open)["ingress"], expected);
}

#[test]
fn an_autoscaler_scales_the_workers_by_demand() {
    let Some(rendered) = rendered(&issued()) else {
        return;
    };
    let scaler = &named(&rendered, "HorizontalPodAutoscaler", "try-escapement-worker")["spec"];
    let deployment = named(&rendered, "Deployment", "try-escapement-worker");
    assert_eq!(scaler["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    assert!(deployment["spec"].get("replicas").is_none(), "it says how many");
    assert_eq!(
        (&scaler["minReplicas"], &scaler["maxReplicas"]),
        (&json!(1), &json!(40))
    );
    // 0.8 of 20 slots.
    let expected = json!([{ "type": "External", "external": {
        "metric": { "name": "escapement_action_demand", "selector": { "matchLabels": { "service": "try-escapement" } } },
        "target": { "type": "AverageValue", "averageValue": "16000m" },
    }}]);
    assert_eq!(scaler["metrics"], expected);
    let page = std::fs::read_to_string(checkout::root().join("deploy/METRICS.md")).unwrap();
    assert!(page.contains("| `escapement_action_demand` |"));
}

#[test]
fn cert_manager_issues_what_the_pods_mount() {
    let Some(rendered) = rendered(&issued()) else {
        return;
    };
    for (component, usage, dns_names) in [
        (
            "server",
            "server auth",
            json!([
                "try-escapement",
                "try-escapement.of-the-test",
                "try-escapement.of-the-test.svc",
                "localhost",
                "plans.example"
            ]),
        ),
        ("worker", "client auth", json!(["try-escapement-worker"])),
    ] {
        let name = format!("try-escapement-{component}");
        let spec = &named(&rendered, "Certificate", &name)["spec"];
        assert_eq!(spec["dnsNames"], dns_names);
        assert_eq!(spec["usages"], json!(["digital signature", usage]));
        let issuer = json!({ "name": "ours", "kind": "ClusterIssuer", "group": "cert-manager.io" });
        assert_eq!(spec["issuerRef"], issuer);
        let mounting = |object: &&Value| {
            let volumes = object["spec"]["template"]["spec"]["volumes"].as_array();
            volumes
                .into_iter()
                .flatten()
                .any(|volume| volume["secret"]["secretName"] == spec["secretName"])
        };
        assert_eq!(rendered.iter().filter(mounting).count(), 1, "{name}");
    }
}
