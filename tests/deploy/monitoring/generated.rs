//! The files that are made of what is watched: dashboards for Grafana and rules for Prometheus.

use super::watched::{Alert, Dashboard, Watched, with_matchers};
use escapement_tests::checkout;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A dashboard as Grafana imports it: two panels side by side.
fn dashboard(dashboard: &Dashboard) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${source}" });
    let job = format!("job=\"{}\"", dashboard.job());
    let of_panel = format!("{job},instance=~\"$instance\"");
    let panels = dashboard.panels.iter().enumerate().map(|(index, panel)| {
        let expression = with_matchers(&panel.expression, &of_panel);
        json!({
            "id": index + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": source,
            "gridPos": { "h": 8, "w": 12, "x": index % 2 * 12, "y": index / 2 * 8 },
            "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
            "targets": [{
                "refId": "A",
                "datasource": source,
                "expr": expression.replace("[w]", "[$__rate_interval]"),
                "legendFormat": panel.legend,
            }],
        })
    });
    let panels: Vec<Value> = panels.collect();
    let mut variables =
        vec![json!({ "name": "source", "label": "Source", "type": "datasource", "query": "prometheus" })];
    let of_job: &[_] = match dashboard.job() {
        "escapement" => &VARIABLES,
        _ => &VARIABLES_OF_WORKERS,
    };
    for (name, of) in of_job {
        let query = format!("label_values({}, {name})", with_matchers(of, &job));
        variables.push(json!({
            "name": name,
            "label": name,
            "type": "query",
            "datasource": source,
            "query": query,
            "refresh": 2,
            "includeAll": true,
            "allValue": ".*",
            "multi": true,
            "current": { "text": "All", "value": "$__all" },
        }));
    }
    json!({
        "uid": format!("escapement-{}", dashboard.name.to_lowercase()),
        "title": format!("Escapement: {}", dashboard.name),
        "description": dashboard.about,
        "tags": ["escapement"],
        "timezone": "browser",
        "refresh": "10s",
        "time": { "from": "now-1h", "to": "now" },
        "schemaVersion": 39,
        "templating": { "list": variables },
        "panels": panels,
    })
}

fn rules(alerts: &[Alert]) -> String {
    let mut text = String::from("# Made of watched.txt.\ngroups:\n  - name: escapement\n    rules:\n");
    for alert in alerts {
        let expression = with_matchers(&alert.expression, JOB);
        let (name, anchor) = (&alert.name, alert.name.to_lowercase());
        write!(
            text,
            "      - alert: {name}\n        expr: '({expression}) {}'\n        for: {}\n        labels: {{ severity: {} }}\n        \
             annotations:\n          summary: '{}'\n          runbook: 'deploy/OPERATIONS.md#{anchor}'\n",
            alert.condition, alert.lasting, alert.severity, alert.summary
        )
        .unwrap();
    }
    text
}

#[test]
fn dashboards_and_rules_are_made_of_what_is_watched() {
    let watched = Watched::read();
    let mut made = vec![("rules.yaml".to_owned(), rules(&watched.alerts))];
    for shown in &watched.dashboards {
        let file = format!("dashboards/{}.json", shown.name.to_lowercase());
        made.push((file, format!("{:#}\n", dashboard(shown))));
    }
    let folder = checkout::root().join("deploy/monitoring");
    for (file, text) in made {
        let file = folder.join(file);
        if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
            std::fs::write(&file, &text).unwrap();
        }
        let shipped = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(shipped, text, "ESCAPEMENT_WRITE=1 writes {} anew", file.display());
    }
    let n_shipped = std::fs::read_dir(folder.join("dashboards")).unwrap().count();
    assert_eq!(n_shipped, watched.dashboards.len());
}

const JOB: &str = r#"job="escapement""#;
/// Each with a figure that has the label.
const VARIABLES: [(&str, &str); 3] = [
    ("instance", "escapement_build_info{}"),
    ("namespace", "escapement_executions_accepted_total{}"),
    ("action", "escapement_action_demand{}"),
];
const VARIABLES_OF_WORKERS: [(&str, &str); 2] = [
    ("instance", "escapement_worker_build_info{}"),
    ("action", "escapement_worker_attempts_in_flight{}"),
];
