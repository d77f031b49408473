"""Settings: defaults, the order of sources, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiergate_server.config import Config, ConfigError, SegmentsConfig, load_config
from tiergate_server.config.s3 import S3Config
from tiergate_server.config.schema import settings

_KEYS = [setting.key for setting in settings()]


def write(directory: Path, text: str) -> Path:
    file = directory / "tiergate.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(*, file: Path | None = None, env: dict[str, str] | None = None, flags: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(file=file, environment={"HOME": "/home/x", **(env or {})}, overrides=flags)
    return str(caught.value)


def test_defaults_are_one_machine_on_loopback() -> None:
    config = load_config(environment={"HOME": "/home/x"})
    assert config == Config(data_directory=Path("/home/x/.local/share/tiergate"))
    assert (config.metadata.listen, config.segments.listen) == ("127.0.0.1:7400", "127.0.0.1:7401")
    assert config.metadata_backend == "embedded:/home/x/.local/share/tiergate/metadata.db"
    assert config.segments_backend == "file:///home/x/.local/share/tiergate/segments"
    assert config.segments.limits.chunk_bytes == 2 * 1024 * 1024


@pytest.mark.parametrize(
    ("data_home", "expected"), [("/data", "/data/tiergate"), ("relative", "/home/x/.local/share/tiergate")]
)
def test_data_directory_follows_xdg_only_when_absolute(data_home: str, expected: str) -> None:
    config = load_config(environment={"HOME": "/home/x", "XDG_DATA_HOME": data_home})
    assert config.data_directory == Path(expected)


def test_flag_beats_environment_beats_file_for_one_setting(tmp_path: Path) -> None:
    file = write(tmp_path, "drain_seconds = 1\n[segments.limits]\nuploads = 1\nindex_bytes = 1\nconcurrent_calls = 1\n")
    config = load_config(
        file=file,
        environment={"TIERGATE_SEGMENTS_LIMITS_UPLOADS": "2", "TIERGATE_SEGMENTS_LIMITS_CONCURRENT_CALLS": "2"},
        overrides={"segments.limits.uploads": "3"},
    )
    limits = config.segments.limits
    assert (limits.index_bytes, limits.concurrent_calls, limits.uploads) == (1, 2, 3)
    assert config.drain_seconds == 1.0


def test_every_setting_has_a_variable_of_its_own() -> None:
    assert len({setting.variable for setting in settings()}) == len(_KEYS)


@given(key=st.sampled_from(_KEYS), position=st.integers(min_value=0))
def test_unknown_key_is_answered_with_the_nearest_one(key: str, position: int) -> None:
    position %= len(key)
    typo = key[:position] + "q" + key[position:]
    variable = "TIERGATE_" + typo.replace(".", "_").upper()
    assert refusal(flags={typo: "1"}) == f"{typo} (from the flag) is not a setting; did you mean {key}?"
    assert refusal(env={variable: "1"}).startswith(f"{variable} is in the environment but is not a setting; did you")


def test_unknown_key_in_the_file_names_file_and_nearest(tmp_path: Path) -> None:
    file = write(tmp_path, '[metadata]\nlissen = "127.0.0.1:1"\n')
    expected = f"metadata.lissen (from the file {file}) is not a setting; did you mean metadata.listen?"
    assert refusal(file=file) == expected


@pytest.mark.parametrize("text", ["metadata = 5\n", "[[segments]]\nuploads = 1\n"])
def test_section_given_as_a_value_is_refused(tmp_path: Path, text: str) -> None:
    assert "is a section, not a setting" in refusal(file=write(tmp_path, text))


def test_empty_section_in_the_file_is_fine(tmp_path: Path) -> None:
    assert load_config(file=write(tmp_path, "[metadata]\n[segments.limits]\n"), environment={"HOME": "/"})


def test_empty_unknown_section_in_the_file_is_refused(tmp_path: Path) -> None:
    assert "metdata" in refusal(file=write(tmp_path, "[metdata]\n"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("drain_seconds = true", "drain_seconds = True"),
        ('drain_seconds = "30"', 'drain_seconds = "30"'),
        ("drain_seconds = nan", "expected a number of seconds above 0"),
        ("drain_seconds = 0", "expected a number of seconds above 0"),
        ('log_level = "loud"', "expected one of debug, info, warning, error"),
        ("metadata.listen = 7400", "metadata.listen = 7400"),
        ("metadata.limits.page_size = 1.5", "expected a whole number of at least 1"),
        ("metadata.limits.page_size = 0", "expected a whole number of at least 1"),
        ("segments.limits.chunk_bytes = 2097153", "expected a whole number from 1048576 to 2097152"),
        ("segments.limits.chunk_bytes = 1048575", "expected a whole number from 1048576 to 2097152"),
        ('metadata.listen = ""', "expected host:port"),
        ('metadata.advertise = "host:0"', "expected a port that clients can connect to"),
        ('metadata.log = "kafka://"', 'expected "embedded:"'),
        ('metadata.log = "kafka://broker:9092/topic"', 'expected "embedded:"'),
        ('metadata.assignment = "1-"', "expected metadata partitions"),
        ('metadata.skip = "3"', "expected partition:offset pairs"),
        ('metadata.kafka.client = "x"', "expected names and values"),
        ("segments.quota.topic_fetch_overrides = 5", "expected topics with whole numbers"),
        ('segments.quota.topic_fetch_overrides = { orders = "5" }', "expected topics with whole numbers"),
        ("segments.quota.topic_fetch_overrides = { orders = -5 }", "expected topics with whole numbers"),
        ("segments.quota.topic_fetch_overrides = { orders = true }", "expected topics with whole numbers"),
        ("segments.quota.fetch_wait_seconds = 0", "expected a number of seconds above 0"),
        ("segments.workers = 0", "expected a whole number from 1 to 256"),
        ('metadata.snapshot.directory = "relative"', "expected an absolute directory"),
        ('metadata.log = "embedded:relative.db"', 'expected "embedded:"'),
        ('segments.store = "s3://"', 'or "s3://bucket[/prefix]"'),
        ('segments.store = "s3://Bucket"', 'or "s3://bucket[/prefix]"'),
        ('segments.store = "s3://bucket/"', 'or "s3://bucket[/prefix]"'),
        ('segments.store = "s3://bucket/a//b"', 'or "s3://bucket[/prefix]"'),
        ('segments.store = "s3://bucket/../b"', 'or "s3://bucket[/prefix]"'),
        ('segments.s3.endpoint_url = "minio:9000"', "expected http://host[:port]"),
        ('segments.s3.public_endpoint_url = "minio:9000"', "expected http://host[:port]"),
        ("segments.limits.url_seconds = 604801", "expected a whole number from 1 to 604800"),
        ("segments.limits.url_seconds = 0", "expected a whole number from 1 to 604800"),
        ('segments.s3.endpoint_url = "http://key:secret@minio:9000"', "expected http://host[:port]"),
        ("segments.s3.part_bytes = 5242879", "expected a whole number from 5242880 to 5368709120"),
        ('segments.store = "file://host/path"', 'expected "file:"'),
        ("segments.store = {}", "or several by names"),
        ('segments.store = { "Hot" = "file:" }', "or several by names"),
        ("segments.store = { hot = 5 }", "or several by names"),
        ('data_directory = ""', "expected the path of a directory"),
        ("data_directory = {}", "expected the path of a directory"),
    ],
)
def test_wrong_value_in_the_file_names_key_file_and_expectation(tmp_path: Path, line: str, expected: str) -> None:
    message = refusal(file=write(tmp_path, line + "\n"))
    assert expected in message
    assert message.startswith(line.split(" = ", maxsplit=1)[0])
    assert f"(from the file {tmp_path / 'tiergate.toml'})" in message


def test_wrong_value_in_environment_and_flag_names_where_it_came_from() -> None:
    variable = "TIERGATE_METADATA_LIMITS_PAGE_SIZE"
    sentence = 'metadata.limits.page_size = "many" (from the {}): expected a whole number of at least 1.'
    assert refusal(env={variable: "many"}) == sentence.format(f"environment variable {variable}")
    assert refusal(flags={"metadata.limits.page_size": "many"}) == sentence.format("flag")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"part_bytes": "5242881"}, "expected a multiple of 1048576"),
        ({"sse": "aws:s3"}, "expected AES256, aws:kms"),
        ({"sse_kms_key_id": "some-key"}, 'set segments.s3.sse = "aws:kms"'),
        ({"sse": "AES256", "sse_kms_key_id": "some-key"}, 'set segments.s3.sse = "aws:kms"'),
        ({"storage_class": "cold"}, "expected a storage class"),
        ({"tags": str({f"tag{number}": "" for number in range(11)}).replace("'", '"')}, "S3 takes 10 at most"),
        ({"conditional_writes": "maybe"}, "expected one of required, unsafe"),
    ],
)
def test_setting_that_s3_could_not_follow_is_refused(flags: dict[str, str], expected: str) -> None:
    assert expected in refusal(flags={f"segments.s3.{name}": value for name, value in flags.items()})


def test_message_too_small_for_a_chunk_is_refused() -> None:
    assert "cannot carry a chunk" in refusal(flags={"segments.limits.message_bytes": "2097152"})


def test_variables_of_the_command_line_and_of_kubernetes_are_left_alone() -> None:
    others = {
        "TIERGATE_TARGET": "x",
        "TIERGATE_SEGMENTS_TARGET": "x",
        "TIERGATE_TIMEOUT": "x",
        "TIERGATE_CONFIG": "x",
        "TIERGATE_SERVICE_HOST": "10.0.0.1",
        "TIERGATE_METADATA_SERVICE_PORT_GRPC": "7400",
        "TIERGATE_METADATA_PORT": "tcp://10.0.0.1:7400",
        "TIERGATE_METADATA_PORT_7400_TCP_ADDR": "10.0.0.1",
        "PATH": "/bin",
    }
    assert load_config(environment={"HOME": "/home/x", **others}) == load_config(environment={"HOME": "/home/x"})


def test_port_variable_that_kubernetes_did_not_set_is_refused() -> None:
    assert "TIERGATE_METADATA_PORT is in the environment but is not a setting" in refusal(
        env={"TIERGATE_METADATA_PORT": "7400"}
    )


def test_file_that_is_absent_or_broken_is_refused_by_name(tmp_path: Path) -> None:
    assert refusal(file=tmp_path / "absent.toml").startswith(
        f"The configuration file {tmp_path / 'absent.toml'} cannot"
    )
    assert "is not valid TOML" in refusal(file=write(tmp_path, "listen = \n"))


@pytest.mark.parametrize("text", ["metadata.metrics", "metadata.advertise", "segments.metrics"])
def test_empty_address_is_accepted_where_it_means_something(text: str) -> None:
    load_config(environment={"HOME": "/"}, overrides={text: ""})


def test_places_of_data_follow_the_settings() -> None:
    config = load_config(
        environment={"HOME": "/"},
        overrides={"data_directory": "/d", "metadata.log": "embedded:/m/x.db", "segments.store": "file:///s/a%20b"},
    )
    assert (config.metadata_database, config.default_store.directory) == (Path("/m/x.db"), Path("/s/a b"))
    memory = load_config(environment={"HOME": "/"}, overrides={"metadata.log": "memory:"})
    assert (memory.metadata_database, memory.metadata_backend) == (None, "memory:")


@given(name=st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20))
def test_segments_backend_names_the_same_directory_again(name: str) -> None:
    directory = Config(data_directory=Path("/") / "d" / name).default_store.directory
    assert directory is not None
    again = Config(data_directory=Path("/"), segments=SegmentsConfig(store=directory.as_uri()))
    assert again.default_store.directory == directory


def test_segments_in_s3_have_no_directory_and_name_their_bucket() -> None:
    config = load_config(environment={"HOME": "/"}, overrides={"segments.store": "s3://bucket/tiered/here"})
    assert (config.default_store.directory, config.segments_backend) == (None, "s3://bucket/tiered/here")


@pytest.mark.parametrize(
    ("path_style", "endpoint_url", "expected"),
    [
        ("auto", "", False),
        ("auto", "http://store:9000", True),
        ("always", "", True),
        ("never", "http://store:9000", False),
    ],
)
def test_path_style_follows_the_endpoint_unless_it_is_said(path_style: str, endpoint_url: str, expected: bool) -> None:
    assert S3Config(path_style=path_style, endpoint_url=endpoint_url).is_path_style is expected


def test_relative_data_directory_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(environment={}, overrides={"data_directory": "data"}).data_directory == tmp_path / "data"


def test_quotas_of_topics_are_read_by_name_also_with_dots(tmp_path: Path) -> None:
    file = tmp_path / "tiergate.toml"
    file.write_text('[segments.quota.topic_fetch_overrides]\norders = 5\nlog.web.eu = 6\n"a.b" = 0\n')
    quota = load_config(file=file, environment={}).segments.quota
    assert quota.topic_fetch_overrides == {"orders": 5, "log.web.eu": 6, "a.b": 0}
    assert quota.topic_copy_overrides == {}
    environment = {"TIERGATE_SEGMENTS_QUOTA_TOPIC_FETCH_OVERRIDES": '{"log.web.eu": 7}'}
    assert load_config(file=file, environment=environment).segments.quota.topic_fetch_overrides == {"log.web.eu": 7}


def test_client_settings_of_kafka_are_passed_on_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "tiergate.toml"
    file.write_text(
        'metadata.log = "kafka://one:9092,two:9092"\n'
        "[metadata.kafka.client]\n"
        'security.protocol = "SASL_SSL"\n'
        '"sasl.password" = "s,e=c"\n'
        "socket.keepalive.enable = true\n"
        "linger.ms = 5\n"
    )
    config = load_config(file=file, environment={})
    assert config.metadata.kafka.client == {
        "security.protocol": "SASL_SSL",
        "sasl.password": "s,e=c",
        "socket.keepalive.enable": "true",
        "linger.ms": "5",
    }
    assert config.metadata_database is None
    flags = {"metadata.kafka.client": '{"client.rack": "r1"}'}
    overridden = load_config(file=file, environment={}, overrides=flags)
    assert overridden.metadata.kafka.client == {"client.rack": "r1"}


TWO_STORES = 'store = { hot = "file:", cold = "s3://bucket/old" }'


def test_several_stores_are_written_out_by_name(tmp_path: Path) -> None:
    lines = ["[segments]", TWO_STORES, 'default_store = "hot"', 'topic_stores = { "a.b" = "cold" }']
    file = write(tmp_path, "\n".join(lines) + "\n")
    config = load_config(file=file, environment={"HOME": "/"}, overrides={"data_directory": "/d"})
    assert config.segments_backend == "hot=file:///d/segments, cold=s3://bucket/old"
    assert config.default_store.name == "hot"
    assert (config.stores["cold"].bucket, config.stores["cold"].prefix) == ("bucket", "old")
    assert config.segments.topic_stores == {"a.b": "cold"}


def test_several_stores_are_taken_from_the_environment_as_json() -> None:
    variables = {
        "HOME": "/",
        "TIERGATE_SEGMENTS_STORE": '{"hot": "file:///h", "default": "s3://bucket"}',
        "TIERGATE_SEGMENTS_DEFAULT_STORE": "default",
    }
    config = load_config(environment=variables)
    assert {name: place.uri for name, place in config.stores.items()} == {"hot": "file:///h", "default": "s3://bucket"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([TWO_STORES], "say in segments.default_store which one takes new segments"),
        ([TWO_STORES, 'default_store = "warm"'], "segments.default_store = warm is none of the stores"),
        (['default_store = "warm"'], "expected one of default"),
        (
            [TWO_STORES, 'default_store = "hot"', 'topic_stores = { orders = "warm" }'],
            "segments.topic_stores.orders = warm is none of the stores in segments.store: expected one of hot, cold",
        ),
    ],
)
def test_choice_of_a_store_that_is_not_there_is_refused(tmp_path: Path, lines: list[str], expected: str) -> None:
    assert expected in refusal(file=write(tmp_path, "\n".join(["[segments]", *lines]) + "\n"))
