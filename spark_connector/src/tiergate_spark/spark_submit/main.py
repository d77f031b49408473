"""What spark-submit is given as the application: spark-submit $(tiergate-spark --main-file) COMMAND …

In a directory of its own, since spark-submit puts the directory of this file first on the path of modules.
"""

from tiergate_spark.pipelines.cli import main

if __name__ == "__main__":
    main()
