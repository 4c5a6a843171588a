//! Every command of the orchestrator in every place: what it makes is there, and its exit code says how it went.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use escapement_tests::Binaries;

use crate::place::{ODD, ORDINARY, Place, SILENT};
use crate::stage::{Stage, echo, folder};

/// What commands work on: a store with settled executions, a backup of it, a record and a plan.
struct Shelf {
    stage: Stage,
    plan: PathBuf,
}

impl Shelf {
    async fn fill() -> Self {
        let mut stage = Stage::new();
        let orchestrator = stage.serve(&ORDINARY, &[]).await;
        stage.execute(&orchestrator).await;
        stage.execute(&orchestrator).await;
        orchestrator.stop().await.unwrap();
        let plan = stage.directory.join("plan.json");
        std::fs::write(&plan, echo().json().to_string()).unwrap();
        let shelf = Self { stage, plan };
        let here = shelf.stage.directory.path();
        for (command, made) in [("backup", "backup"), ("export", "record")] {
            assert_eq!(shelf.run(&ORDINARY, command, here), Some(0));
            assert!(here.join(made).is_file());
        }
        shelf
    }

    /// Runs a command that makes what it makes in `here`; gives its exit code.
    fn run(&self, place: &Place, name: &str, here: &Path) -> Option<i32> {
        let mut command = place.command(&Binaries::build().unwrap().orchestrator, here);
        let shelf = self.stage.directory.path();
        command
            .args(name.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (store, made) = (self.stage.store(), |name: &str| here.join(name));
        match name {
            "backup" => command
                .arg("--store-path")
                .arg(store)
                .arg("--to")
                .arg(made("backup")),
            "restore" => {
                let command = command.arg("--store-path").arg(made("restored"));
                command.arg("--from").arg(shelf.join("backup"))
            }
            "check" => command.arg("--store-path").arg(store),
            "check --repair" => command.arg("--store-path").arg(made("restored")),
            "drop" => {
                let command = command.arg("--store-path").arg(made("restored"));
                command.args(["--number", "1"])
            }
            "export --all" => {
                let command = command.arg("--store-path").arg(store);
                command.arg("--to").arg(made("records"))
            }
            "export" => {
                let command = command
                    .arg("--store-path")
                    .arg(store)
                    .arg("--to")
                    .arg(made("record"));
                command.args(["--execution-id", &self.stage.told[0].0])
            }
            "verify" => command.arg(shelf.join("record")),
            "render" => command.arg(&self.plan).arg("--to").arg(made("drawing")),
            _ => unreachable!("{name}"),
        };
        command.status().unwrap().code()
    }
}

#[tokio::test]
async fn a_command_does_its_work_wherever_it_is_run() {
    let shelf = Shelf::fill().await;
    let places: Vec<Place> = [&SILENT[..], &ODD].concat();
    let (shelf, n_threads) = (&shelf, 4);
    std::thread::scope(|scope| {
        for places in places.chunks(places.len().div_ceil(n_threads)) {
            scope.spawn(move || {
                for place in places {
                    works_in(shelf, place);
                }
            });
        }
    });
}

fn works_in(shelf: &Shelf, place: &Place) {
    let here = folder(shelf.stage.directory.path(), &place.name.replace(' ', "-"));
    let commands = [
        ("backup", Some("backup"), 0),
        ("restore", Some("restored/store.db"), 0),
        ("check", None, 0),
        ("check --repair", None, 0),
        // It gives up only what is damaged.
        ("drop", None, 73),
        ("export", Some("record"), 0),
        ("export --all", Some("records"), 0),
        ("verify", None, 0),
        ("render", Some("drawing"), 0),
    ];
    for (command, made, expected) in commands {
        let code = shelf.run(place, command, &here);
        assert_eq!(code, Some(expected), "{command}: {}", place.name);
        if let Some(made) = made {
            let bytes = std::fs::metadata(here.join(made)).map(|file| file.len());
            assert!(bytes.is_ok_and(|n| n > 0), "{command}: {}: {made}", place.name);
        }
    }
    // What was made is what it should be, and its owner can read it.
    let mut check = Command::new(Binaries::build().unwrap().orchestrator);
    check.arg("check").arg("--store-path").arg(here.join("restored"));
    check.stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(
        check.status().unwrap().code(),
        Some(0),
        "the restored store: {}",
        place.name
    );
    let record = |folder: &Path| std::fs::read(folder.join("record")).unwrap();
    assert_eq!(
        record(&here),
        record(shelf.stage.directory.path()),
        "{}",
        place.name
    );
}
