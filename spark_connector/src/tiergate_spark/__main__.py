"""`python -m tiergate_spark`, the same as `tiergate-spark`."""

from tiergate_spark.pipelines.cli import main

if __name__ == "__main__":
    main()
