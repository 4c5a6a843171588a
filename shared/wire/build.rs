//! Compiles the protos without `protoc` and keeps the descriptor set for reflection.

use prost::Message;
use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    // The pages beside the protos say nothing to the compiler.
    for protos in ["escapement", "externalscaler"] {
        println!("cargo:rerun-if-changed={}", root.join(protos).display());
    }
    let files = [
        "escapement/v1/access.proto",
        "escapement/v1/plan_execution_service.proto",
        "escapement/v1/event_service.proto",
        "escapement/v1/stored.proto",
        "escapement/v1/fleet_service.proto",
        "escapement/v1/record.proto",
        "escapement/worker/v1/worker_service.proto",
        "externalscaler/externalscaler.proto",
        "escapement/runs/v1/run_service.proto",
        "escapement/runs/v1/plan_service.proto",
        "escapement/runs/v1/inbox_service.proto",
        "escapement/runs/v1/action_service.proto",
        "escapement/runs/v1/session_service.proto",
        "escapement/runs/v1/trigger_service.proto",
        "escapement/runs/v1/goal_service.proto",
        "escapement/runs/v1/artifact_service.proto",
    ];
    let mut compiler = protox::Compiler::new([&root])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(files)?;
    let descriptors = compiler.file_descriptor_set();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_transport(false)
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .extern_path(".google.protobuf.Struct", "::escapement_model::Opaque")
        .extern_path(".google.protobuf.Value", "::escapement_model::OpaqueValue")
        // A session may say a thousand names without a word of their nature.
        .boxed(".escapement.worker.v1.ActionSpec.traits")
        .bytes(".escapement.worker.v1")
        .bytes(".escapement.runs.v1")
        .btree_map(".")
        .codec_path("crate::counted::CountingCodec")
        .compile_fds(descriptors)?;
    Ok(())
}
