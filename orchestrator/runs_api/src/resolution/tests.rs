use escapement_run::presets::Preset;
use escapement_run::spec::{ResumePolicy, Spec};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;

use super::{Defaults, spec_of};
use crate::fields::Fields;
use crate::settings::RunSettings;

fn spec(request: &v1::CreateRunRequest, defaults: &Defaults, settings: &RunSettings) -> Spec {
    let mut fields = Fields::default();
    let spec = spec_of(request, defaults, settings, &mut fields);
    assert!(fields.are_right());
    spec
}

fn settings() -> RunSettings {
    RunSettings {
        planner_limit_ms: None,
        default_resume: Some(ResumePolicy::Discard),
        default_autonomy_level: Some(2),
        default_attempt_ms: Some(45_000),
        default_max_retries: Some(7),
        default_max_turns: Some(8),
        default_max_concurrency: Some(9),
        default_batch_size: Some(10),
    }
}

// RUN-7.1
#[test]
fn a_setting_replaces_the_default_of_every_preset_and_nothing_else() {
    for preset in Preset::ALL {
        for what in [
            What::Goal("Weigh the bears".to_owned()),
            What::Document(Default::default()),
        ] {
            let request = v1::CreateRunRequest {
                preset: preset.as_str().to_owned(),
                what: Some(what),
                ..Default::default()
            };
            let plain = spec(&request, &Defaults::default(), &RunSettings::default());
            let set = spec(&request, &Defaults::default(), &settings());
            let mut expected = plain.clone();
            expected.policy.set_resume(ResumePolicy::Discard);
            expected.autonomy_level = 2;
            expected.limits.attempt_ms = 45_000;
            expected.limits.max_retries = 7;
            expected.limits.max_turns = 8;
            expected.limits.max_concurrency = 9;
            expected.limits.batch_size = 10;
            assert_eq!(set, expected, "{preset:?}");
            assert_ne!(set, plain, "{preset:?}");
        }
    }
}

// RUN-7.1
#[test]
fn a_saved_plan_goes_before_a_setting_and_a_request_before_both() {
    let saved = Defaults {
        preset: Some(Preset::Protocol),
        autonomy_level: Some(1),
        run_ms: 99,
        ..Defaults::default()
    };
    let of_plan = spec(&v1::CreateRunRequest::default(), &saved, &settings());
    assert_eq!((of_plan.autonomy_level, of_plan.limits.run_ms), (1, 99));
    assert_eq!(
        of_plan.limits.watchdog_ms, 30_000,
        "what has no setting is the preset's"
    );
    assert_eq!(of_plan.limits.attempt_ms, 45_000);

    let request = v1::CreateRunRequest {
        autonomy_level: Some(0),
        limits: Some(v1::Limits {
            attempt_ms: Some(1),
            max_retries: Some(0),
            max_turns: Some(1),
            max_concurrency: Some(1),
            batch_size: Some(1),
            ..Default::default()
        }),
        policy: Some(v1::Policy {
            resume: "retry_pending".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let own = spec(&request, &saved, &settings());
    let (limits, policy) = (own.limits, own.policy);
    assert_eq!(
        (own.autonomy_level, limits.attempt_ms, limits.max_retries),
        (0, 1, 0)
    );
    let counts = (limits.max_turns, limits.max_concurrency, limits.batch_size);
    assert_eq!(counts, (1, 1, 1));
    assert_eq!(policy.resume(), ResumePolicy::RetryPending);
}
