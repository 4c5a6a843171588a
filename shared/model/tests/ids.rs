//! Ids are strict.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use escapement_model::{ExecutionId, InstanceId, InvalidId};

#[test]
fn either_letter_case_is_read_and_lower_case_is_written() {
    let id: ExecutionId = "9B2F6C1E-3A4D-4C5B-8E7F-0A1B2C3D4E5F".parse().unwrap();
    assert_eq!(id.to_string(), "9b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e5f");
    assert_eq!(id, "9b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e5f".parse().unwrap());
}

#[test]
fn every_other_form_is_refused() {
    for text in [
        "",
        "9b2f6c1e3a4d4c5b8e7f0a1b2c3d4e5f",
        "{9b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e5f}",
        "urn:uuid:9b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e5f",
        "00000000-0000-0000-0000-000000000000",
        "9b2f6c1e-3a4d-1c5b-8e7f-0a1b2c3d4e5f",
        "9b2f6c1e-3a4d-7c5b-8e7f-0a1b2c3d4e5f",
        "9b2f6c1e-3a4d-4c5b-7e7f-0a1b2c3d4e5f",
        "9b2f6c1e-3a4d-4c5b-ce7f-0a1b2c3d4e5f",
        "9b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e5",
        "9b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e5f ",
        "9b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e5g",
        "9b2f6c1e_3a4d_4c5b_8e7f_0a1b2c3d4e5f",
        "9b2f6c1-e3a4d-4c5b-8e7f-0a1b2c3d4e5f",
        "９b2f6c1e-3a4d-4c5b-8e7f-0a1b2c3d4e",
    ] {
        assert_eq!(text.parse::<ExecutionId>(), Err(InvalidId), "{text:?}");
    }
}

#[test]
fn random_bytes_become_a_version_4_id() {
    for byte in [0x00, 0x5a, 0xff] {
        let id = ExecutionId::from_random([byte; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(ExecutionId::from_bytes(*id.as_bytes()), Some(id));
    }
    assert_eq!(ExecutionId::from_bytes([0; 16]), None);
}

#[test]
fn a_random_id_is_read_back_from_its_digits() {
    let id = InstanceId::new([0, 1, 0x9a, 0xff, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xf0]);
    assert_eq!(InstanceId::from_hex(&id.to_hex()), Some(id));
    assert_eq!(InstanceId::from_hex(&id.to_hex().to_uppercase()), Some(id));
    for wrong in [
        "",
        "00",
        "+0019aff0405060708090a0b0c0d0ef0",
        &"é".repeat(16),
        &"g".repeat(32),
    ] {
        assert_eq!(InstanceId::from_hex(wrong), None, "{wrong}");
    }
}
