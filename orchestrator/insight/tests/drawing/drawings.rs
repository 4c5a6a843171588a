//! What plans and executions look like.

use super::markup::well_formed;
use super::{bytes, in_repository, plan, sample, sample_path};
use escapement_insight::scene::Scene;
use escapement_insight::{View, read, svg, text};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Says that the drawings are to be written, not compared.
const RENEW: &str = "ESCAPEMENT_TESTS_RENEW_DRAWINGS";

fn release_report() -> Scene {
    let document = std::fs::read(in_repository("tests/plans/release-report.json")).unwrap();
    read(&document, None).unwrap()
}

fn import() -> Scene {
    read(&sample("import-record.json"), Some(&sample("import-plan.json"))).unwrap()
}

/// Compares a drawing with the one that was looked at.
fn is_fresh(name: &str, drawing: &str) {
    let path: PathBuf = sample_path(name);
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(&path, drawing).unwrap();
    }
    let drawn = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        drawn == drawing,
        "{name} is another drawing now; renew it with {RENEW}=1 and look at it:\n{drawing}"
    );
}

fn all_are_fresh(name: &str, scene: &Scene) {
    is_fresh(&format!("{name}.txt"), &text(scene, View::Both, 100));
    is_fresh(&format!("{name}.svg"), &svg(scene, View::Both, 1_280));
}

#[test]
fn the_release_report_is_drawn_as_it_was() {
    all_are_fresh("release-report", &release_report());
    is_fresh("release-report-80.txt", &text(&release_report(), View::Both, 80));
}

#[test]
fn a_diamond_is_drawn_as_it_was() {
    all_are_fresh("diamond", &read(&sample("diamond.json"), None).unwrap());
}

#[test]
fn retries_a_skip_cascade_and_a_timeout_are_drawn_as_they_were() {
    all_are_fresh("import", &import());
    is_fresh("import-80.txt", &text(&import(), View::Both, 80));
}

#[test]
fn forty_steps_are_drawn_as_they_were() {
    all_are_fresh("forty-steps", &read(&sample("forty-steps.json"), None).unwrap());
}

#[test]
fn a_simulation_without_its_plan_is_drawn_as_a_timeline() {
    let scene = read(&sample("simulation.json"), None).unwrap();
    all_are_fresh("simulation", &scene);
    assert!(!scene.has_graph);
}

#[test]
fn a_simulation_with_its_plan_is_drawn_with_its_graph() {
    let scene = read(&sample("simulation.json"), Some(&sample("import-plan.json"))).unwrap();
    let drawing = text(&scene, View::Dag, 100);
    assert!(
        scene.has_graph && drawing.contains("never ran") && drawing.contains("PLAN_TIMEOUT"),
        "{drawing}"
    );
}

#[test]
fn every_drawing_is_well_formed_and_names_every_step() {
    let small = [vec![], vec![0], vec![0, 1]];
    let scenes = [
        release_report(),
        import(),
        read(&sample("forty-steps.json"), None).unwrap(),
        read(&sample("simulation.json"), None).unwrap(),
        read(&bytes(&plan("small", &small)), None).unwrap(),
    ];
    for scene in scenes {
        for view in [View::Dag, View::Timeline, View::Both] {
            let drawing = svg(&scene, view, 1_280);
            let texts = well_formed(&drawing);
            let is_drawn = match view {
                View::Dag => scene.has_graph,
                View::Timeline => scene.story.is_some(),
                View::Both => true,
            };
            for step in scene.steps.iter().filter(|_| is_drawn) {
                assert!(
                    texts.iter().any(|text| text.trim() == step.short_id),
                    "{} in {drawing}",
                    step.short_id
                );
            }
        }
    }
}

#[test]
fn what_callers_write_is_never_markup_and_never_obeyed() {
    let evil = "<script>&\"'\u{1b}[31m\u{202e}";
    let mut document = plan(evil, &[vec![], vec![0]]);
    document["steps"][0]["action"] = evil.into();
    document["metadata"]["titles"][super::step_id(1)] = evil.into();
    let scene = read(&bytes(&document), None).unwrap();
    let drawing = svg(&scene, View::Both, 1_280);
    let texts = well_formed(&drawing);
    let shown = "<script>&\"'\u{fffd}[31m\u{fffd}";
    assert!(!drawing.contains("<script"), "{drawing}");
    assert!(
        texts.iter().filter(|text| text.contains(shown)).count() >= 3,
        "{texts:?}"
    );
    let drawing = text(&scene, View::Both, 100);
    assert!(
        drawing.starts_with(shown) && drawing.matches("<script>").count() == 3,
        "{drawing}"
    );
    assert!(drawing.chars().all(|c| c == '\n' || !c.is_control()) && !drawing.contains('\u{202e}'));
}

#[test]
fn no_line_is_wider_than_it_may() {
    let chain: Vec<Vec<usize>> = (0..60_usize)
        .map(|at| (at.saturating_sub(30)..at).step_by(3).collect())
        .collect();
    let mut document = plan(&"名".repeat(255), &chain);
    document["steps"][7]["action"] = "a".repeat(100).into();
    let scenes = [release_report(), import(), read(&bytes(&document), None).unwrap()];
    for scene in scenes {
        for n_columns in [60, 80, 120, 400] {
            let drawing = text(&scene, View::Both, n_columns);
            for line in drawing.lines() {
                let n_wide = line.chars().filter(|c| *c == '名').count();
                let width = line.chars().count() + n_wide;
                assert!(width <= n_columns, "{width} of {n_columns}: {line}");
            }
        }
    }
}

#[test]
fn the_same_input_gives_the_same_drawing() {
    for _ in 0..3 {
        assert_eq!(
            svg(&import(), View::Both, 1_280),
            svg(&import(), View::Both, 1_280)
        );
        assert_eq!(text(&import(), View::Both, 90), text(&import(), View::Both, 90));
    }
}

#[test]
fn the_largest_plans_are_drawn_in_bounded_time_and_space() {
    let every = |step: usize| (0..1_024_usize).map(move |at| (0..at).rev().step_by(step).take(100).collect());
    let plans: [Vec<Vec<usize>>; 4] = [
        every(1).collect(),
        every(7).collect(),
        // No dependency implies another, and no two steps have the same dependents.
        (0..1_024_usize)
            .map(|at| match at {
                0..512 => vec![],
                _ => (0..512)
                    .filter(|source| (source * 7 + at * 13) % 5 < 2 && source % 512 != at % 512)
                    .take(200)
                    .collect(),
            })
            .collect(),
        (0..1_024_usize)
            .map(|at| if at < 512 { vec![] } else { (0..180).collect() })
            .collect(),
    ];
    for dependencies in plans {
        let scene = read(&bytes(&plan("large", &dependencies)), None).unwrap();
        // A machine that is busy takes several times as long as one that is not.
        let begin = Instant::now();
        let (drawn, written) = (svg(&scene, View::Both, 1_280), text(&scene, View::Both, 100));
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert!(
            drawn.len() < 4 << 20 && written.len() < 1 << 20,
            "{} {}",
            drawn.len(),
            written.len()
        );
        well_formed(&drawn);
    }
}
