//! Programs in Go, each of the newest release that the Go of Debian 12, which is 1.19, can build.

use super::{debian, quiet, tell};
use std::path::Path;
use std::process::Command;

/// Name of a program, and its module.
pub(super) type Module = (&'static str, &'static str);

/// Caller by reflection, on the pages and in tests.
pub(super) const GRPCURL: Module = ("grpcurl", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.1");
/// Generator of messages in Go.
pub(super) const MESSAGES: Module = (
    "protoc-gen-go",
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.35.2",
);
/// Generator of services in Go.
pub(super) const SERVICES: Module = (
    "protoc-gen-go-grpc",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1",
);

/// Builds a program into the folder, if it is not there or of another release. Where there is no Go, one on the PATH will do.
pub(super) fn program(folder: &Path, (name, module): Module) -> Result<(), String> {
    // The note is written last, after the build.
    let (own, note) = (folder.join(name), folder.join(format!("{name}.txt")));
    if own.is_file() && std::fs::read_to_string(&note).is_ok_and(|noted| noted == module) {
        return Ok(());
    }
    if debian::find("go").is_none() && debian::find(name).is_some() {
        return Ok(());
    }
    tell(name, "go install");
    let mut go = Command::new("go");
    go.args(["install", module])
        .env("GOBIN", folder)
        .env("GOFLAGS", "-trimpath");
    if quiet(&mut go) && own.is_file() && std::fs::write(note, module).is_ok() {
        return Ok(());
    }
    Err(format!(
        "{name}; run `go install {module}`, or put a release of it on the PATH"
    ))
}
