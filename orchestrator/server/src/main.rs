//! The binary `orchestrator`: reads its arguments and serves, or does the one thing that it was told. Does nothing else.

use escapement_commands::run_command;
use escapement_orchestrator::process::arguments::Task;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(debug_assertions)]
    plant_what_the_test_wants();
    let code = run_task();
    escapement_process::end();
    code
}

#[allow(clippy::print_stdout, reason = "the answer of `check-config`")]
fn run_task() -> ExitCode {
    let task = match Task::from_arguments() {
        Ok(task) => task,
        Err(no_config) => return no_config.report(),
    };
    let done = match task {
        // Open the store, recover, start the engine, serve, drain: see `run`.
        Task::Serve(config) => escapement_orchestrator::run(&config).map_err(|failure| failure.report()),
        Task::CheckConfig(config) => {
            let checked = escapement_orchestrator::check(&config);
            checked
                .map(|()| println!("the settings are valid"))
                .map_err(|failure| failure.report())
        }
        Task::Command(command) => run_command(&command).map_err(|failure| failure.report()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => code,
    }
}

/// Test builds only: the fault that the suites are to catch.
#[cfg(debug_assertions)]
fn plant_what_the_test_wants() {
    use escapement_model::planted::{Bug, VARIABLE, plant};
    if let Some(bug) = std::env::var(VARIABLE)
        .ok()
        .and_then(|name| Bug::from_name(&name))
    {
        plant(bug);
    }
}
