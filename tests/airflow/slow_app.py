"""An application that takes ten minutes to load: a job that is running when Airflow ends."""

import time

time.sleep(600)
