//! The program that libFuzzer drives, one target for each run. Judges nothing itself.
//!
//! `ESCAPEMENT_FUZZ_TARGET` names the target. Where `ESCAPEMENT_FUZZ_SEEDS` names a folder, the seeds are written there first.
#![no_main]

use escapement_fuzz::{Target, target};
use std::sync::OnceLock;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("ESCAPEMENT_FUZZ_TARGET").expect("ESCAPEMENT_FUZZ_TARGET names the target");
        let chosen = target(&name).expect("ESCAPEMENT_FUZZ_TARGET names a target that there is");
        if let Some(folder) = std::env::var_os("ESCAPEMENT_FUZZ_SEEDS") {
            chosen.write_seeds(folder.as_ref()).expect("the folder for seeds can be written");
        }
        TARGET.get_or_init(|| chosen);
    },
    |bytes: &[u8]| {
        TARGET.get().expect("the initialisation comes first").run(bytes);
    }
);
